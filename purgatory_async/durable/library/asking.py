"""How a call of this process becomes a question to the state, and what the state gives becomes a model of the clients.

Arguments travel as the documents of HTTP do, and are read and refused by the same rules. So a call has one meaning,
whatever carries it.
"""

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from purgatory_async import PurgatoryClosed, PurgatoryFull
from purgatory_async.client._bodies import with_plain_numbers
from purgatory_async.client._model import RequestRefused
from purgatory_async.cluster import LogError
from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.decoding import decoded, pointed
from purgatory_async.durable.grants import Grant, Permission
from purgatory_async.durable.library.waits import LocalWaits
from purgatory_async.durable.state import Guard
from purgatory_async.durable.verbs.keeper import Keeper
from purgatory_async.durable.verbs.refusals import problem_for

A = TypeVar("A", bound="Asking")
D = TypeVar("D")
P = ParamSpec("P")
T = TypeVar("T")


class Caller(Guard):
    """Who asks in this process: it may do all, under its owner's name.

    Args:
        owner: Owns what it makes, and answers by this name; None for no name.
    """

    __slots__ = ("_grant",)

    def __init__(self, owner: str | None) -> None:
        self._grant: Final = Grant(owner, frozenset(Permission))

    def __repr__(self) -> str:
        return f"<Caller {self._grant.owner}>"

    @property
    def grant(self) -> Grant:
        """All rights, and its name."""
        return self._grant


class Asking:
    """Base of what carries out verbs in this process.

    Args:
        keeper: Has the state.
        caller: Who asks.
        waits: Hold what waits.
    """

    def __init__(self, keeper: Keeper, caller: Caller, waits: LocalWaits) -> None:
        self._keeper: Final = keeper
        self._caller: Final = caller
        self._waits: Final = waits

    async def _caught_up(self) -> None:
        """Catch up with all that was answered anywhere."""
        await self._waits.caught_up()


def verb(
    method: Callable[Concatenate[A, P], Awaitable[T]],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Let a coroutine method refuse as a client does: with `RequestRefused`, also if the store is away.

    Once the waits are closed, what that has ended raises the reason: `PurgatoryClosed`, unless the state has failed.
    """

    @wraps(method)
    async def _refusing(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except (problems.Problem, LogError, PurgatoryFull, PurgatoryClosed) as error:
            refused = refusal(error, self._waits)
        raise refused

    return _refusing


def refusal(
    error: problems.Problem | LogError | PurgatoryFull | PurgatoryClosed, waits: LocalWaits
) -> RequestRefused | PurgatoryClosed:
    """Return what a call raises that was refused, or that the end of the waits has ended."""
    if waits.closed and not (
        isinstance(error, problems.Problem) and error.kind is not problems.Kind.DRAINING
    ):
        error = waits.why_closed()
    if isinstance(error, PurgatoryClosed):
        return error
    if isinstance(error, LogError):  # without a header to repeat a change by
        problem = problems.Problem(problems.Kind.STORE_UNAVAILABLE, str(error))
    else:
        problem = problem_for(error)
    return RequestRefused.of(problem.kind.status, plain(problem.document))


def written(body: Mapping[str, Any]) -> bytes:
    """Write a body as the clients do.

    Raises:
        TypeError, ValueError: A value is not JSON.
    """
    members = with_plain_numbers(body)
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def read(body: Mapping[str, Any], decoder: "msgspec.json.Decoder[D]") -> D:
    """Read a body as HTTP's are read.

    Raises:
        Problem: ``malformed`` or ``invalid``.
        TypeError, ValueError: A value is not JSON.
    """
    return decoded(written(body), decoder)


def convert(body: Mapping[str, Any], kind: type[D]) -> D:
    """Read a body whose values are texts, numbers and lists of them, as `read` does, in a fifth of the time.

    Raises:
        Problem: ``invalid``.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise problems.invalid(*pointed(str(error))) from None


def plain(view: msgspec.Struct) -> Any:
    """Return a document as its reader's client has it, in plain objects. O(bytes)."""
    return msgspec.json.decode(msgspec.json.encode(view))

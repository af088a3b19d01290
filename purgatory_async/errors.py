"""What this package raises, and the checks of arguments that its classes share.

    Exception
     +-- PurgatoryError               code that calls this package: wrong state, wrong loop, watching inside a check
     |    +-- OperationExpired        a wait: its timeout passed (also a TimeoutError): keys, timeout
     |    +-- OperationCancelled      a wait: a verb cancelled it: keys
     |    +-- PurgatoryClosed         a purgatory or timer: it is closed or draining: keys
     |    +-- PurgatoryFull           a purgatory or timer: max_pending is reached: limit
     |    +-- _InitialisedAgain       a second ``__init__`` (also a RuntimeError)
     |    +-- SubscriberLagged        a subscriber: it missed items: missed, index
     |    +-- QuorumImpossible        a quorum: too many are against it: for_, against
     |    +-- _ScopeError             a timeout's scope: its state forbids the call (also a RuntimeError)
     |    +-- JournalError            journal: it is unusable, or cannot promise that a record is safe
     |    +-- LogError                cluster: a log is closed, or not open
     |    |    +-- LogUnavailable     cluster: the engine is away, entries may be in the log or not: cause
     |    |    |    +-- LogReconnected    cluster: the connection was lost, nothing was appended
     |    |    |    +-- EntriesLost   cluster: the engine lost entries known here, nothing was appended
     |    |    +-- LogGap             cluster: the entries after a position are gone: oldest, epoch
     |    |    +-- LogDamaged         cluster: what is stored is not what was appended: position
     |    |    +-- LogRefused         cluster: the engine is not set up to keep a log's promises: cause
     |    |    +-- _Closed            durable: its owner closed the state
     |    +-- EntryError              durable: an entry is damaged, or of a newer program (also a ValueError)
     |    +-- FoldError               durable: the log does not go on from here, or a checkpoint is damaged
     |    |    +-- LevelError         durable: the log, or a checkpoint, is of a newer program
     |    +-- ServiceError            client: base of what a call to the service raises
     |         +-- ServiceUnreachable client: no answer came
     |         +-- RequestRefused     client: the answer is a problem, or another server's: status, slug, detail
     |         +-- SignalGap          client: signals may be missing: since
     +-- RefusedError                 one outside the process asked, and reads the message as the answer
     |    +-- Problem                 durable: as a problem document, over HTTP or not: kind, document
     |    +-- SettingsError           service: a setting, on the command line (also a ValueError)
     |    |    +-- UnprotectedError   service: a host that others reach, without a token
     |    +-- StartRefused            service: the start of a server, on the command line
     |    +-- Refused                 pipeline: a job, on the command line
     |    +-- ProtocolError           kafka: a request, or its part for one partition: code
     |    |    +-- RecordsRejectedError   kafka: records that their topic does not take: numbers
     |    |    +-- AbsentError        kafka: what the broker lacks by design: absence
     |    |    +-- MemberIdRequiredError  kafka: a new member, which must join again with its id: member_id
     |    +-- MalformedRequestError   kafka: bytes that are no request; the connection closes: absence
     +-- Interruption                 what ends a wait or a step inside the package; another part catches it
          +-- ClientLeft              web: the client closed its connection
          +-- ServerStops             web: the server stops
          +-- Stalled                 web: a client takes nothing
          +-- _Silent                 web: a stream has had no event for a heartbeat
          +-- BodyAwaited             service: an endpoint needs a body that has yet to come
          +-- _Released               service: the token of a stream's reader has changed
          +-- SignalsLost             durable: the state was loaded again under a one-shot wait
          +-- Diverged                durable: the digest of another worker is not the one here
          +-- SegmentGone             pipeline: a segment was deleted before it was read

The first word names the room that defines and raises an error, unless that is the library itself.
Bad arguments are plain ``TypeError`` and ``ValueError``. Data is in attributes, outside ``args``; a `PurgatoryError`
survives pickle and copy.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from contextlib import suppress
from enum import Enum
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, isasyncgenfunction, iscoroutinefunction
from numbers import Number
from operator import index
from typing import Final, NoReturn, cast

__all__ = [
    "Interruption",
    "OperationCancelled",
    "OperationExpired",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryFull",
    "RefusedError",
    "as_integer",
    "check_callback",
    "check_exception",
    "check_limit",
    "check_result",
    "is_async",
    "makes_coroutines",
    "refuse_again",
    "refuse_copy",
    "refuse_number",
    "returned_async",
]

_ASYNC: Final = CO_COROUTINE | CO_ASYNC_GENERATOR


class PurgatoryError(Exception):
    """Base of this library's errors; raised itself for a call that the present state forbids."""


class RefusedError(Exception):
    """Base of what a server or a command answers to those who asked from outside, in its message."""


class Interruption(Exception):
    """Base of what ends a wait or a step, for another part of this package to catch."""


class OperationExpired(PurgatoryError, TimeoutError):
    """A wait on ``keys`` expired after ``timeout`` seconds; ``except TimeoutError`` catches it too."""

    def __init__(self, *args: object, keys: tuple[Hashable, ...] = (), timeout: float | None = None) -> None:
        super().__init__(*args)
        self.keys = keys
        self.timeout = timeout


class OperationCancelled(PurgatoryError):
    """`Purgatory.cancel_for_key` ended a wait on ``keys``.

    This is not `asyncio.CancelledError`: the waiting task itself goes on.
    """

    def __init__(self, *args: object, keys: tuple[Hashable, ...] = ()) -> None:
        super().__init__(*args)
        self.keys = keys


class PurgatoryClosed(PurgatoryError):
    """The purgatory or timer is closed or draining; ``keys`` are what the refused or ended wait watched."""

    def __init__(self, *args: object, keys: tuple[Hashable, ...] = ()) -> None:
        super().__init__(*args)
        self.keys = keys


class PurgatoryFull(PurgatoryError):
    """``max_pending``, in ``limit``, operations or callbacks are pending; nothing was registered."""

    def __init__(self, *args: object, limit: int | None = None) -> None:
        super().__init__(*args)
        self.limit = limit


class _InitialisedAgain(PurgatoryError, RuntimeError):
    """Raised by a second ``__init__``; a ``RuntimeError`` too, as asyncio's futures raise."""


def as_integer(name: str, value: object, wanted: str = "an integer") -> int:
    """Return an integer of any type, such as numpy's, as an ``int``.

    Raises:
        TypeError: It is none; a ``bool`` is refused.
    """
    if not isinstance(value, bool):
        with suppress(TypeError):
            return index(value)  # type: ignore[arg-type]  # it raises
    raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}")


def check_limit(name: str, limit: int | None) -> int | None:
    """Validate a limit and return it, an integer as an ``int``.

    Raises:
        TypeError: It is neither ``None`` nor an integer.
        ValueError: It is below 1.
    """
    if limit is None:
        return None
    limit = as_integer(name, limit, "None or an integer")
    if limit < 1:
        raise ValueError(f"{name} must be at least 1, or None for no limit, got {limit}")
    return limit


def is_async(function: object) -> bool:
    """Whether calling it makes a coroutine or an async generator, as far as can be seen.

    Partials, methods and objects with an async ``__call__`` show it; a lambda that returns a coroutine does not.
    """
    return _called_as(function, iscoroutinefunction) or _called_as(function, isasyncgenfunction)


def makes_coroutines(function: object) -> bool:
    """Whether calling it makes a coroutine, as far as `is_async` sees. One look at its flags for a plain function."""
    code = getattr(function, "__code__", None)  # a bound method forwards its function's
    if code is None or hasattr(function, "_is_coroutine_mark"):  # inspect.markcoroutinefunction
        return _called_as(function, iscoroutinefunction)
    return bool(code.co_flags & CO_COROUTINE)


def _called_as(function: object, makes: Callable[[object], bool]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return makes(function) or makes(getattr(type(function), "__call__", None))  # noqa: B004 - not whether it is callable


def check_callback(name: str, callback: object) -> None:
    """Raise `TypeError` unless ``callback`` is callable and not async as `is_async`: it would never be awaited."""
    code = getattr(callback, "__code__", None)  # a bound method forwards its function's
    if code is None:
        if not callable(callback):
            raise TypeError(f"{name} must be callable, got {callback!r}")
        if not is_async(callback):
            return
    elif not code.co_flags & _ASYNC:
        return
    raise TypeError(f"{name} must be a plain function, not async, got {callback!r}; let it start a task")


def check_result(name: str, callback: object, returned: object) -> None:
    """Raise `TypeError` if a plain function has returned a coroutine or an async generator, which nothing awaits."""
    if isinstance(returned, (Coroutine, AsyncGenerator)):
        raise returned_async(name, callback, cast("object", returned))


def returned_async(name: str, callback: object, returned: object) -> TypeError:
    """Close a coroutine that a plain function has returned; returns the error that names the function."""
    if isinstance(returned, Coroutine):
        returned.close()
    return TypeError(
        f"{name} must be a plain function, not async, but {callback!r} returned {returned!r}; let it start a task"
    )


def refuse_number(keys: tuple[object, ...]) -> None:
    """Raise `TypeError` if the last of several watch keys looks like a timeout: a number behind a text or a tuple."""
    last = keys[-1]
    if type(last) is str or not isinstance(last, Number) or isinstance(last, bool | Enum):
        return
    if any(isinstance(key, str | bytes | tuple) for key in keys[:-1]):
        raise TypeError(
            f"a number behind other keys must be named, got {', '.join(map(repr, keys))}; write timeout={last}, or "
            f"timeout=inf to wait for the key {last!r} too"
        )


def refuse_copy(self: object, protocol: object) -> NoReturn:  # noqa: ARG001 - a `__reduce_ex__`
    """Raise `TypeError`: the `__reduce_ex__` of what wheels and watch lists link, which a copy would corrupt."""
    raise TypeError(f"cannot copy or pickle a {type(self).__name__}; make a new one")


def refuse_again(made: object, attribute: str) -> None:
    """Raise `PurgatoryError` in a second ``__init__``, which would lose what waits; the first sets ``attribute``."""
    if getattr(made, attribute, None) is not None:
        raise _InitialisedAgain(f"{type(made).__name__} is initialised: cannot do it again; make a new one")


def check_exception(exception: object) -> None:
    """Raise `TypeError` unless ``exception`` is an exception instance."""
    if not isinstance(exception, BaseException):
        raise TypeError(f"exception must be an exception instance, got {exception!r}")

"""The request that the present task answers, for the log, the metrics and its answer.

A request keeps the id that its client or proxy sent as ``X-Request-ID``; without a valid one it gets another.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Final

from purgatory_async.durable.state import Guard
from purgatory_async.service.access.admission import Admission, Releasable
from purgatory_async.service.contract.header_fields import values_of
from purgatory_async.service.contract.problems import Problem
from purgatory_async.web.asgi import Scope

NO_ROUTE: Final = "none"  # of a path that the service does not have, and of a head that is malformed

_FIELD: Final = b"x-request-id"
_ID: Final = re.compile(rb"[A-Za-z0-9._~-]{1,128}")
_TRACE: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
# New ids are unique, not secret: a counter costs a tenth of a random number.
_PROCESS: Final = secrets.token_hex(8).encode()
_numbers: Final = count(1)

Fields = Iterable[tuple[bytes, bytes]]


class Visit:
    """One request, from the end of its head to the end of its answer.

    Args:
        scope: ASGI's; None if the head is malformed.
        began: When the head was complete, in seconds of the service's clock.
        held: How many requests are held, by route.

    Attributes:
        field: The field of its answer that has its id: the client's, or a new one.
        route: The template of its path, such as ``/v1/keys/{key}``, which has a bounded number of values.
        task: Answers it; None before and after.
        admission: What its token allows; None without tokens, on open paths and for a request that was not let in.
        changed: Whether it has made a change.
    """

    __slots__ = ("_held", "admission", "began", "changed", "field", "route", "scope", "task")

    def __init__(self, scope: Scope | None, began: float, held: dict[str, int]) -> None:
        self.scope = scope
        self.began = began
        self.field = _FIELD, _request_id(() if scope is None else scope["headers"])
        self.route = NO_ROUTE
        self.task: asyncio.Task[Any] | None = None
        self.admission: Admission | None = None
        self.changed = False
        self._held = held

    def __repr__(self) -> str:
        return f"<Visit {self.request_id} route={self.route}>"

    @property
    def request_id(self) -> str:
        """Its id, as the log shows it."""
        return self.field[1].decode()

    def check(self) -> None:
        """Check that the request may be answered: it has made a change, or still has its rights. O(1).

        Raises:
            Problem: ``unauthorized`` or ``forbidden``.
        """
        if not self.changed and self.admission is not None and self.admission.refusal is not None:
            raise self.admission.refusal

    def count_held(self, change: int) -> None:
        """Count the request as held (1), or as no longer held (-1). O(1)."""
        self._held[self.route] = self._held.get(self.route, 0) + change


VISIT: Final[ContextVar[Visit | None]] = ContextVar("VISIT", default=None)
"""The request of the present context. Callbacks inherit it, so only in its own task is it the one that is answered."""


def note_held(held: Releasable) -> None:
    """Count the request of the present context as held, and note what can release it. O(1)."""
    visit = VISIT.get()
    if visit is not None:
        visit.count_held(1)
        if visit.admission is not None:
            visit.admission.held.append(held)
            if visit.admission.refusal is not None:
                held.release()


def forget_held(held: Releasable) -> None:
    """Count the request of the present context as no longer held. O(1)."""
    visit = VISIT.get()
    if visit is not None:
        visit.count_held(-1)
        if visit.admission is not None:
            visit.admission.held.remove(held)


def check_admission() -> None:
    """Check that the request of the present context may go on: its token may have changed. O(1).

    Raises:
        Problem: ``unauthorized`` or ``forbidden``.
    """
    visit = VISIT.get()
    if visit is not None and visit.admission is not None and visit.admission.refusal is not None:
        raise visit.admission.refusal


def admit_change() -> None:
    """Check as `check_admission`, before the request of the present context makes a change; note that it does. O(1).

    Every change passes here: `State.propose`, and the drain.

    Raises:
        Problem: ``unauthorized`` or ``forbidden``.
    """
    check_admission()
    visit = VISIT.get()
    if visit is not None:
        visit.changed = True


class _Revocable:
    """What a request waits for, and how to end that."""

    __slots__ = ("_admission", "_withdraw")

    def __init__(self, admission: Admission, withdraw: Callable[[Problem], object]) -> None:
        self._admission = admission
        self._withdraw = withdraw

    def release(self) -> None:
        """End early, as the rights are lost."""
        assert self._admission.refusal is not None, "a request is released once it is refused"
        self._withdraw(self._admission.refusal)


@contextmanager
def revocable(withdraw: Callable[[Problem], object]) -> Iterator[None]:
    """Call a function with the refusal if the present request loses its rights within the block. O(1)."""
    visit = VISIT.get()
    if visit is None or visit.admission is None:
        yield
        return
    held = _Revocable(visit.admission, withdraw)
    visit.admission.held.append(held)
    try:
        yield
    finally:
        visit.admission.held.remove(held)


class _Rights(Guard):
    """The rights of the request of the present context."""

    def admit(self) -> None:
        """See `admit_change`."""
        admit_change()

    def revocable(self, withdraw: Callable[[Exception], object]) -> AbstractContextManager[None]:
        """See `revocable`."""
        return revocable(withdraw)


RIGHTS: Final = _Rights()
"""Guards the state of a service."""


def trace_id_of(fields: Fields) -> str | None:
    """Return the trace id of a valid ``traceparent`` (W3C Trace Context), else None. O(fields)."""
    given = values_of(fields, b"traceparent")
    match = _TRACE.fullmatch(given[0]) if len(given) == 1 else None
    if match is None or (match[1] == b"00" and match[3] is not None):
        return None
    return match[2].decode()


def _request_id(fields: Fields) -> bytes:
    given = values_of(fields, _FIELD)
    if len(given) == 1 and _ID.fullmatch(given[0]):
        return given[0]
    return b"%b-%x" % (_PROCESS, next(_numbers))

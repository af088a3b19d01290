"""One request on its way through the service: who asks, what it may do, what it waits for, and how it is answered.

It goes with the request, so that the log and the metrics, the state's guard and what keeps the request waiting find all
that they need in it. Only a record of the log has to know which request is being answered at the moment: `PRESENT`.

A request keeps the id that its client or proxy sent as ``X-Request-ID``; without a valid one it gets another.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from typing import Any, Final, Protocol

from purgatory_async.durable.grants import UNBOUND, Grant
from purgatory_async.durable.state import Guard
from purgatory_async.service.access.admission import Admission, Releasable
from purgatory_async.service.contract.header_fields import Fields, Head

NO_ROUTE: Final = "none"  # of a path that the service does not have, and of a head that is malformed

_TRACE: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
# New ids are unique, not secret: a counter costs a tenth of a random number.
_PROCESS: Final = secrets.token_hex(8).encode()
_numbers: Final = count(1)


class Closable(Protocol):
    """Where a request came from, and where its answer goes."""

    @property
    def closing(self) -> bool:
        """Whether nothing can be sent any more."""
        ...


class Server(Protocol):
    """What answers requests.

    Attributes:
        held: How many requests are held, by route.
    """

    held: dict[str, int]

    def now(self) -> float:
        """Return the present of the service's clock, in seconds."""
        ...

    def serve(self, visit: Any, step: Callable[[Any], Any] | None = None, of: Any = None, /) -> None:
        """Take a step of a request: call its endpoint, also again with more of its body; or ``step(of)``."""

    def stamp(self, visit: Any, /) -> bytes:
        """Return the lines of the fields that all answers have: which request, and which state."""
        ...

    def drop(self, visit: Any, /) -> None:
        """Give a request up: its client has left."""


class Waiting(Releasable, Protocol):
    """What keeps a request waiting."""

    def leave(self) -> None:
        """End: the client has left."""


class Visit(Guard):
    """One request, from the end of its head to the end of its answer.

    Args:
        server: Answers it.
        wire: Takes its answer.
        head: The target, and all else that its client said of it.

    Attributes:
        server: Answers it.
        method: HTTP's; empty if the head is malformed.
        path: Percent-encoded, as it was sent.
        query_string: The text after the question mark.
        began: When the head was complete, in seconds of the service's clock.
        id: The client's, or a new one.
        route: The template of its path, such as ``/v1/keys/{key}``, which has a bounded number of values.
        admission: What its token allows; None without tokens, on open paths and for a request that was not let in.
        changed: Whether it has made a change.
        task: Answers it, if a task does.
        waits: What keeps it waiting; None while nothing does.
        gone: Whether its client has left, or was refused in its middle.
        ended: Whether it is answered, or given up.
    """

    __slots__ = (
        *("admission", "began", "changed", "ended", "gone", "id", "method", "path", "profile", "server"),
        *("query_string", "route", "task", "waits", "wire"),
    )

    def __init__(self, server: Server, wire: Closable, head: Head) -> None:
        self.server = server
        self.wire = wire
        profile = self.profile = head.profile
        self.method = profile.method
        self.path = head.path
        self.query_string = head.query
        self.began = server.now()
        self.id = profile.request_id or b"%b-%x" % (_PROCESS, next(_numbers))
        self.route = NO_ROUTE
        self.admission: Admission | None = None
        self.changed = self.gone = self.ended = False
        self.task: asyncio.Task[Any] | None = None
        self.waits: Waiting | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.request_id} route={self.route}>"

    @property
    def request_id(self) -> str:
        """Its id, as the log shows it."""
        return self.id.decode()

    # Its rights; see `Guard`.

    @property
    def grant(self) -> Grant:
        """What it may do now; ask again after each wait."""
        return UNBOUND if self.admission is None else self.admission.grant

    @property
    def traceparent(self) -> str | None:
        """Its ``traceparent``, if it is valid."""
        match = _traceparent_of(self.profile.fields)
        return None if match is None else match[0].decode()

    def check(self) -> None:
        """Check that the request may be answered: it has made a change, or still has its rights. O(1).

        Raises:
            Problem: ``unauthorized`` or ``forbidden``.
        """
        if not self.changed:
            self.check_admission()

    def check_admission(self) -> None:
        """Check that the request may go on: its token may have changed. O(1); raises as `check`."""
        if self.admission is not None and self.admission.refusal is not None:
            raise self.admission.refusal

    def admit(self) -> None:
        """Check as `check_admission`, before the request makes a change; note that it does. O(1)."""
        self.check_admission()
        self.changed = True

    def revocable(self, withdraw: Callable[[Exception], object]) -> AbstractContextManager[None]:
        """Call a function with the refusal if the token allows the request no longer, within the block. O(1)."""
        return nullcontext() if self.admission is None else _revocable(self.admission, withdraw)

    # What it waits for.

    def note_held(self, held: Waiting) -> None:
        """Note what keeps the request waiting: it ends with the client, and with the rights. O(1)."""
        self.waits = held
        counts, route = self.server.held, self.route
        counts[route] = counts.get(route, 0) + 1
        if self.admission is not None:
            self.admission.held.append(held)
            if self.admission.refusal is not None:
                held.release()

    def forget_held(self, held: Waiting) -> None:
        """Note that the request does not wait any more. O(1)."""
        self.waits = None
        self.server.held[self.route] -= 1
        if self.admission is not None:
            self.admission.held.remove(held)

    def leave(self) -> None:
        """Give it up: the client has left. A task goes on, and comes to nothing. Idempotent."""
        self.gone = True
        if self.waits is not None:
            self.waits.leave()
        elif self.task is None and not self.ended:
            self.server.drop(self)


class _Present:
    """Which request is being answered in this pass of the loop.

    Attributes:
        visit: None outside requests, and in tasks, which find theirs by `TASKS`.
    """

    __slots__ = ("visit",)

    def __init__(self) -> None:
        self.visit: Visit | None = None


PRESENT: Final = _Present()
TASKS: Final[ContextVar[Visit | None]] = ContextVar("TASKS", default=None)
"""The request that the present task answers. What a task schedules inherits it, and is another task."""


class _Revocable:
    """A change that waits for its turn: released, it is withdrawn."""

    __slots__ = ("_admission", "_withdraw")

    def __init__(self, admission: Admission, withdraw: Callable[[Exception], object]) -> None:
        self._admission = admission
        self._withdraw = withdraw

    def release(self) -> None:
        """Withdraw it, with the reason."""
        assert self._admission.refusal is not None, "only a refused admission releases what it holds"
        self._withdraw(self._admission.refusal)


@contextmanager
def _revocable(admission: Admission, withdraw: Callable[[Exception], object]) -> Iterator[None]:
    held = _Revocable(admission, withdraw)
    admission.held.append(held)
    try:
        yield
    finally:
        admission.held.remove(held)


def trace_id_of(fields: Fields) -> str | None:
    """Return the trace id of a valid ``traceparent`` (W3C Trace Context), else None. O(1)."""
    match = _traceparent_of(fields)
    return None if match is None else match[2].decode()


def _traceparent_of(fields: Fields) -> re.Match[bytes] | None:
    given = fields.values("traceparent")
    match = _TRACE.fullmatch(given[0]) if len(given) == 1 else None
    return None if match is None or (match[1] == b"00" and match[3] is not None) else match

"""What all connections of a server share: the application, the timer and the deadlines of clients."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol

from purgatory_async import Timer, TimerHandle
from purgatory_async.service.http.answer import AnswerHeads, http_date
from purgatory_async.service.http.head import PROBED, HeadReader
from purgatory_async.service.http.phase import Phase
from purgatory_async.service.http.unsent import Unsent
from purgatory_async.service.http.wire import Application
from purgatory_async.service.logs import Log

Allowed = tuple[float, Callable[[Any], None]] | None


class Closable(Protocol):
    """A connection, as its server knows it."""

    def shutdown(self) -> None:
        """Close after the present answer."""

    def cut(self) -> None:
        """Abort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The deadlines of a client, in seconds.

    Attributes:
        head: For a head, from accept or its first byte.
        body: For a body, from the end of its head.
        crowd: For the present answer, once the pipelined bytes exceed their limit.
        idle: Between two requests.
        stall: For reading part of an answer.
        linger: For reading the last answer while still sending.
        last: For one more request, once the server stops.
    """

    head: float
    body: float
    crowd: float = 1.0
    idle: float = 75.0  # most load balancers close idle connections after 60
    stall: float = 30.0
    linger: float = 2.0
    last: float = 1.0

    def of(self, phase: Phase, *, last: bool) -> float | None:
        """Return how long a phase may last; None where an answer has its own deadline, or nothing is waited for.

        Args:
            phase: The phase of a connection.
            last: Whether the server stops.
        """
        if phase is Phase.IDLE:
            return self.last if last else self.idle
        if phase is Phase.HEAD:
            return self.last if last else self.head
        if phase is Phase.BODY:
            return self.body
        if phase is Phase.CROWDED:
            return self.crowd
        return self.linger if phase is Phase.LINGERING else None


class ServerContext:
    """What all connections of a server share.

    Args:
        app: Answers the requests.
        timer: For the deadlines.
        deadlines: The deadlines of clients.
        log: For what operators should know.
        unsent: Counts what connections have not sent.
        now: The timer's clock, in seconds.
        probed: The paths that HTTP/1.0 may ask for without ``Host``.
        date: Returns the date as HTTP shows it.

    Attributes:
        connections: The open ones.
        heads: Reads the heads of requests.
        answer_heads: Makes those of answers.
    """

    def __init__(
        self,
        app: Application,
        timer: Timer,
        deadlines: Deadlines,
        log: Log,
        unsent: Unsent,
        *,
        now: Callable[[], float] | None = None,
        probed: Collection[bytes] = PROBED,
        date: Callable[[], str] = http_date,
    ) -> None:
        self.app: Final = app
        self.timer: Final = timer
        self.deadlines: Final = deadlines
        self.log: Final = log
        self.unsent: Final = unsent
        self.now: Final = now or timer.time
        self.connections: Final[set[Closable]] = set()
        self.heads: Final = HeadReader(probed)
        self.answer_heads: Final = AnswerHeads(date)


class Watched:
    """Something with states, some of which have a deadline.

    A new deadline only stores a number: the timer's entry stays, and compares it when due. So a connection with a
    thousand requests a second touches the timer once a minute, and a held request soon has no entry.
    """

    __slots__ = ("_due", "_entry", "_until", "context")

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self._entry: TimerHandle | None = None
        self._due = math.inf  # when the entry looks, at the latest
        self._until = 0.0

    def _allowed(self) -> Allowed:
        """Return the seconds that the present state may last, and what runs then; None for no deadline."""
        raise NotImplementedError

    def cut(self) -> None:
        """End at once; called when the timer is closed."""
        raise NotImplementedError

    def _watch(self, now: float | None = None) -> None:
        """Start the deadline of the present state, which replaces the one before. O(1).

        Args:
            now: The clock's time, if it was just read.
        """
        allowed = self._allowed()
        if allowed is None:
            return  # a present entry drops itself when due
        timer, delay = self.context.timer, allowed[0]
        self._until = until = (self.context.now() if now is None else now) + delay
        if timer.closed:
            self.cut()
        elif until < self._due:
            self._unwatch()
            self._entry, self._due = timer.call_later(delay, Watched._look, self), until

    def _look(self) -> None:
        """Run the deadline if it has passed, or schedule the rest."""
        self._entry, self._due = None, math.inf
        allowed = self._allowed()
        if allowed is None:
            return
        left = self._until - self.context.now()
        if left > 0:
            self._entry, self._due = self.context.timer.call_later(left, Watched._look, self), self._until
        else:
            allowed[1](self)

    def _unwatch(self) -> None:
        """Cancel the timer's entry."""
        if self._entry is not None:
            self._entry.cancel()
            self._entry, self._due = None, math.inf

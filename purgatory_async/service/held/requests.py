"""Held requests: each is a delayed operation, in a separate purgatory.

A held request watches an operation (until it ends), a key (until its next signal), what a follower of signals hears, or
a place in line at a queue (until it has an item). Its outcomes: that happened (completed), the wait is over (expired),
the client left (cancelled), the service drains (closed). So the end of a wait never ends an operation, and one limit
and one `close` cover all held requests.

Those that watch the same are completed a few at a time. Until its turn comes a held request can end otherwise, so a
request whose wait is over reads the state once more.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, cast, final

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.events import Handlers, Handling, KeySignalled, OperationEnded
from purgatory_async.service.contract import problems
from purgatory_async.service.held.given import HELD, Given
from purgatory_async.service.held.pacing import SLICE, Pace, in_turn
from purgatory_async.service.visit import Visit
from purgatory_async.web.race import ClientLeft

Then = Callable[[bool], Given]
"""Goes on with a request: called with whether what it watched has happened."""

Otherwise = Callable[[Exception], Given | None]
"""Goes on with a request that may not be held any longer, or whose client has left: called with the reason.

With None that is raised. To raise it here would tie the exception to its own traceback.
"""


@final
class HeldRequest(DelayedOperation[None]):
    """A held request.

    Attributes:
        visit: The request.
        then: Goes on with it; None if a task awaits the request.
        otherwise: Called instead, if the request may not go on; None to raise why.
        lost: Whether the state is of another history now.
    """

    __slots__ = ("_owner", "lost", "otherwise", "then", "visit")

    def __init__(
        self,
        timeout: float | None,
        owner: "HeldRequests",
        visit: Visit,
        then: Then | None,
        otherwise: Otherwise | None,
    ) -> None:
        super().__init__(timeout)
        self._owner = owner
        self.visit = visit
        self.then = then
        self.otherwise = otherwise
        self.lost = False

    def on_complete(self) -> None:
        """Let the request go on, once what ended its wait is done."""
        self._owner.let_go_on(self)

    def leave(self) -> None:
        """End, because the client has left."""
        if self.cancel() and self.then is not None:
            self._owner.go_on(self)

    def release(self) -> None:
        """End early: its request may not go on."""
        self.force_complete(None)


class HeldRequests(Handling):
    """Held requests of one sort; those for operations and keys observe the operations.

    Args:
        name: The name of their purgatory.
        timer: For the waits.
        pace: At which those that watch the same complete.
        limit: The most requests held at once.
        on_undelivered: Called when one completes as its client leaves.

    Attributes:
        limit: The most requests held at once.
    """

    def __init__(
        self, name: str, timer: Timer, pace: Pace, limit: int, on_undelivered: Callable[[], None]
    ) -> None:
        self._purgatory: Final = Purgatory(name, timer=timer, max_pending=limit)
        self._pace: Final = pace
        self.limit: Final = limit
        self._on_undelivered: Final = on_undelivered
        self._ended: Final[deque[HeldRequest]] = deque()  # that have yet to go on

    def __repr__(self) -> str:
        return f"<HeldRequests {self._purgatory.name} held={self.count} limit={self.limit}>"

    @property
    def count(self) -> int:
        """How many requests are held. O(1)."""
        return self._purgatory.pending

    def check_limit(self) -> None:
        """Check that one more request can be held, before registering anything for it. O(1).

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self._purgatory.closed:
            raise problems.draining()
        if self._purgatory.pending >= self.limit:
            raise problems.overloaded("requests", self.limit)

    def hold(
        self,
        visit: Visit,
        watched: Hashable,
        wait: float | None,
        then: Then,
        *,
        otherwise: Otherwise | None = None,
    ) -> Given:
        """Hold a request until what it watches happens, or the wait is over.

        Args:
            visit: The request.
            watched: A key, `end_of` a pending operation, or what `happened` is called with.
            wait: Seconds; None for no limit.
            then: Goes on with the request.
            otherwise: Called instead, also at once, if the request may not go on or its client has left; None to
                raise why.

        Returns:
            `HELD`.

        Raises:
            Problem: ``overloaded``, ``draining`` (also while held) or ``gap``; ``unauthorized`` or ``forbidden`` if
                the tokens have changed.
        """
        try:
            self._begin(visit, watched, wait, then, otherwise)
        except (problems.Problem, ClientLeft) as error:
            given = None if otherwise is None else otherwise(error)
            if given is None:
                raise
            return given
        return HELD

    async def until(
        self,
        visit: Visit,
        watched: Hashable,
        wait: float | None,
        begin: Callable[[], Awaitable[bool]] | None = None,
    ) -> bool:
        """Do as `hold`, for a request that a task answers.

        Args:
            visit: The request.
            watched: As of `hold`.
            wait: Seconds; None for no limit.
            begin: Awaited first, when it is watched for already; False if there is nothing to wait for.

        Returns:
            True if it happened, False if the wait is over.

        Raises:
            Problem: As of `hold`.
            ClientLeft: The client left; the held request is cancelled.
        """
        request = self._begin(visit, watched, wait)
        try:
            if begin is not None and not await begin():
                return False
            await request
        finally:
            # Also when the request's task is cancelled.
            request.cancel()
            visit.forget_held(request)
        return self._happened(request)

    def _begin(
        self,
        visit: Visit,
        watched: Hashable,
        wait: float | None,
        then: Then | None = None,
        otherwise: Otherwise | None = None,
    ) -> HeldRequest:
        visit.check_admission()
        if visit.gone:
            raise ClientLeft
        request = HeldRequest(wait, self, visit, then, otherwise)
        try:
            self._purgatory.try_complete_else_watch(request, (watched,))
        except PurgatoryFull:
            raise problems.overloaded("requests", self.limit) from None
        except PurgatoryClosed:
            raise problems.draining() from None
        visit.note_held(request)
        return request

    def _happened(self, request: HeldRequest) -> bool:
        """Return whether what an ended one watched has happened; raise if its request may not go on."""
        visit, outcome = request.visit, request.outcome
        if visit.gone or visit.wire.closing:  # also in the pass that completed it
            if outcome is Outcome.COMPLETED:
                self._on_undelivered()
            raise ClientLeft
        visit.check_admission()
        if request.lost:
            raise problems.gap()
        if outcome is Outcome.CLOSED:
            raise problems.draining()
        return outcome is Outcome.COMPLETED

    def let_go_on(self, request: HeldRequest) -> None:
        """Let an ended one go on in the next pass of the loop, when the present step is done; a task does by itself."""
        if request.then is not None:
            if not self._ended:
                asyncio.get_running_loop().call_soon(self._go_on)
            self._ended.append(request)

    def _go_on(self) -> None:
        """Let some of those go on that have ended."""
        for _ in range(min(len(self._ended), SLICE)):
            self.go_on(self._ended.popleft())
        if self._ended:
            asyncio.get_running_loop().call_soon(self._go_on)

    def go_on(self, request: HeldRequest) -> None:
        """Let an ended one go on now."""
        visit = request.visit
        visit.forget_held(request)
        visit.server.serve(visit, self._then, request)

    def _then(self, request: HeldRequest) -> Given:
        try:
            happened = self._happened(request)
        except (problems.Problem, ClientLeft) as error:
            given = None if request.otherwise is None else request.otherwise(error)
            if given is None:
                raise
            return given
        assert request.then is not None, "the task that awaits one goes on by itself"
        return request.then(happened)

    def handlers(self) -> Handlers:
        """Complete the requests held for an ended operation or a signalled key."""
        return {OperationEnded: self._operation_ended, KeySignalled: self._key_signalled}

    def _operation_ended(self, event: OperationEnded) -> None:
        if self._purgatory.pending:  # what ends most often has none
            self.happened(end_of(event.operation))

    def _key_signalled(self, event: KeySignalled) -> None:
        self.happened(event.key)

    def happened(self, watched: Hashable) -> bool:
        """Complete the requests held for something, the oldest first; return whether there are any. O(requests)."""
        requests = list(self._purgatory.operations(watched))
        if len(requests) == 1:
            return requests[0].force_complete()
        if requests:
            self._pace.complete(in_turn(requests))
            return True
        return False

    def each_happened(self, watched: Iterable[Hashable]) -> None:
        """Complete the requests held for several things, in this order; looks for them when their turn comes."""
        self._pace.complete(
            request for each in in_turn(watched) for request in self._purgatory.operations(each)
        )

    def look_again(self, *, lost: bool) -> None:
        """Complete all, because the state was loaded again; with ``lost`` it is another history. O(held requests)."""
        for request in list(self._purgatory.operations()):
            assert isinstance(request, HeldRequest), "only requests are held"
            request.lost = lost
            request.force_complete(None)

    def close(self) -> int:
        """End every held request with ``draining``, refuse new ones; return how many were held."""
        held = cast("list[HeldRequest]", self._purgatory.close())
        for request in held:
            self.let_go_on(request)
        return len(held)


def end_of(operation: DelayedOperation[Any]) -> Hashable:
    """Return what requests held for an operation watch: its id in a tuple, as keys are text; or a one-shot wait."""
    return (operation.id,) if isinstance(operation, Operation) else operation

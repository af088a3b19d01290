"""Held requests: waiters that belong to a request, which goes on when they end, or leaves before.

A request that may not go on any longer, or whose client has left, ends its wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, cast, final

from purgatory_async import Outcome, Timer
from purgatory_async.durable.documents import problems
from purgatory_async.durable.waiting.pacing import SLICE, Pace
from purgatory_async.durable.waiting.waiters import Waiter, Waiters
from purgatory_async.service.held.given import HELD, Given
from purgatory_async.service.visit import Visit
from purgatory_async.web.race import ClientLeft

Then = Callable[[bool], Given]
"""Goes on with a request: called with whether what it watched has happened."""

Otherwise = Callable[[Exception], Given | None]
"""Goes on with a request that may not be held any longer, or whose client has left: called with the reason.

With None that is raised. To raise it here would tie the exception to its own traceback.
"""


@final
class HeldRequest(Waiter):
    """A held request.

    Attributes:
        visit: The request.
        then: Goes on with it; None if a task awaits the request.
        otherwise: Called instead, if the request may not go on; None to raise why.
    """

    __slots__ = ("_owner", "otherwise", "then", "visit")

    def __init__(self, timeout: float | None, owner: "HeldRequests", visit: Visit) -> None:
        super().__init__(timeout)
        self._owner = owner
        self.visit = visit
        self.then: Then | None = None
        self.otherwise: Otherwise | None = None

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


class HeldRequests(Waiters[Visit]):
    """Held requests of one sort.

    Args:
        name, timer, pace, limit: As of `Waiters`.
        on_undelivered: Called when one completes as its client leaves.
    """

    def __init__(
        self, name: str, timer: Timer, pace: Pace, limit: int, on_undelivered: Callable[[], None]
    ) -> None:
        super().__init__(name, timer, pace, limit)
        self._on_undelivered: Final = on_undelivered
        self._ended: Final[deque[HeldRequest]] = deque()  # that have yet to go on

    def hold(
        self,
        by: Visit,
        watched: Hashable,
        wait: float | None,
        then: Then,
        *,
        otherwise: Otherwise | None = None,
    ) -> Given:
        """Hold a request until what it watches happens, or the wait is over; see `Waiters.until`.

        Args:
            by: The request.
            watched: What it waits for.
            wait: Seconds; None for no limit.
            then: Goes on with the request.
            otherwise: Called instead, also at once, if the request may not go on or its client has left; None to
                raise why.

        Returns:
            `HELD`.

        Raises:
            Problem: As of `Waiters.until`; ``unauthorized`` or ``forbidden`` if the tokens have changed.
            ClientLeft: The client left.
        """
        try:
            request = self._waiter(by, wait)
            request.then, request.otherwise = then, otherwise
            self._watch(request, watched)
        except (problems.Problem, ClientLeft) as error:
            given = None if otherwise is None else otherwise(error)
            if given is None:
                raise
            return given
        return HELD

    def _waiter(self, by: Visit, wait: float | None) -> HeldRequest:
        by.check_admission()
        if by.gone:
            raise ClientLeft
        return HeldRequest(wait, self, by)

    def _begun(self, waiter: Waiter) -> None:
        request = cast("HeldRequest", waiter)
        request.visit.note_held(request)

    def _forget(self, waiter: Waiter) -> None:
        request = cast("HeldRequest", waiter)
        request.visit.forget_held(request)

    def _check(self, waiter: Waiter) -> None:
        visit = cast("HeldRequest", waiter).visit
        if visit.gone or visit.wire.closing:  # also in the pass that completed it
            if waiter.outcome is Outcome.COMPLETED:
                self._on_undelivered()
            raise ClientLeft
        visit.check_admission()

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

    def close(self) -> int:
        """End every held request with ``draining``, refuse new ones; return how many were held."""
        held = cast("list[HeldRequest]", self._purgatory.close())
        for request in held:
            self.let_go_on(request)
        return len(held)

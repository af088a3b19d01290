"""The waits of this process's own calls."""

from collections.abc import Callable
from typing import Final

from purgatory_async import PurgatoryClosed
from purgatory_async.cluster import LogError, LogUnavailable
from purgatory_async.cluster.connection import Backoff
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Guard
from purgatory_async.durable.verbs.keeper import Keeper
from purgatory_async.durable.waiting.pacing import Pace
from purgatory_async.durable.waiting.takers import Takers
from purgatory_async.durable.waiting.waiters import Waiters
from purgatory_async.durable.waiting.waiting import OVERDUE, Waiting


class LocalWaits(Waiting[Guard]):
    """Calls of this process that wait.

    Args:
        keeper: Has the state.
        why_closed: Returns why waits have ended, once they are closed.

    Attributes:
        closed: Whether they have ended, and no other begins.
        why_closed: As given.
    """

    def __init__(self, keeper: Keeper, why_closed: Callable[[], LogError | PurgatoryClosed]) -> None:
        self.closed = False
        self.why_closed: Final = why_closed
        self._keeper: Final = keeper
        state, timer, pace, limit = keeper.state, keeper.timer, Pace(), keeper.backing.limits.max_pending
        taking = Waiters[Guard]("takers", timer, pace, limit, why_closed)
        overdue = None if keeper.backing.in_memory else OVERDUE
        takers = Takers(state, timer, taking, overdue=overdue, catch_up=self.patiently)
        super().__init__(state, timer, Waiters("waits", timer, pace, limit, why_closed), takers)
        keeper.hear = self.hear

    async def caught_up(self) -> None:
        """Catch up with all that was answered anywhere.

        Raises:
            LogUnavailable: The store is away.
            LogError, PurgatoryClosed: The waits are closed.
        """
        if self.closed:
            raise self.why_closed()
        await at_last(self._keeper.caught_up())

    async def patiently(self, until: float) -> None:
        """Catch up however long the store is away, but not after a time of the timer; then raise as `caught_up`."""
        backoff, timer = Backoff(), self._keeper.timer
        while True:
            try:
                return await self.caught_up()
            except LogUnavailable:
                if timer.time() >= until:
                    raise
            await timer.sleep(backoff.next_delay())

    def close(self) -> int:
        """End every wait, also for a position or an event; return how many others there were. Idempotent."""
        self.closed = True
        self.positions.close()
        self.feed.close()
        return super().close()

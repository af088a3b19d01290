"""The waits of this process's own calls."""

from collections.abc import Callable

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
        closed: Returns why waits have ended, once they are closed.
    """

    def __init__(self, keeper: Keeper, closed: Callable[[], Exception]) -> None:
        state, timer, pace, limit = keeper.state, keeper.timer, Pace(), keeper.backing.limits.max_pending
        taking = Waiters[Guard]("takers", timer, pace, limit, closed)
        overdue = None if keeper.backing.in_memory else OVERDUE
        takers = Takers(state, timer, taking, overdue=overdue)
        super().__init__(state, timer, Waiters("waits", timer, pace, limit, closed), takers)
        keeper.hear = self.hear

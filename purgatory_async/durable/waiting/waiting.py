"""All that waits for something in one process, so that it can be told, counted and ended together."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic

from purgatory_async import Timer
from purgatory_async.durable.fold.operations import OperationRescheduled
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.state import State
from purgatory_async.durable.waiting.feed import Feed
from purgatory_async.durable.waiting.followers import Followers
from purgatory_async.durable.waiting.positions import Positions
from purgatory_async.durable.waiting.takers import OF_TAKERS, Takers
from purgatory_async.durable.waiting.waiters import G, Waiters

OVERDUE: Final = 1.0
"""Seconds after a taker's wait until the store is asked why the wait has not ended."""


class Waiting(Generic[G]):
    """What waits in a process.

    Args:
        state: What it waits for.
        timer: For every wait.
        keys: Hold what waits for operations, keys and signals.
        takers: What waits for items.

    Attributes:
        keys: Hold what waits for operations, keys and signals.
        followers: Readers of all signals after an index.
        takers: What waits for items.
        positions: Waits for a position that another process has answered with.
        feed: The newest events.
    """

    def __init__(self, state: State, timer: Timer, keys: Waiters[G], takers: Takers[G]) -> None:
        self.keys: Final = keys
        self.followers: Final = Followers(state, timer, keys)
        self.takers: Final = takers
        self.positions: Final = Positions(timer, lambda: state.fold.position)
        self.feed: Final = Feed(timer, state)
        self._hearers: Final[dict[type[Effect], Callable[[Any], None]]] = {
            **dict.fromkeys(OF_TAKERS, takers.hear),
            OperationRescheduled: self.feed.rescheduled,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} count={self.count}>"

    @property
    def count(self) -> int:
        """How many would be ended by `close`: the positions are soon reached, or not at all."""
        return self.keys.count + self.takers.waiters.count

    def hear(self, effects: Sequence[Effect]) -> None:
        """Tell the effects of a step to all that hear of them, and to those that wait for its position. O(effects)."""
        for effect in effects:
            hear = self._hearers.get(type(effect))
            if hear is not None:
                hear(effect)
        if self.followers.waiting:
            self.followers.hear(effects)
        if self.positions.waiting:
            self.positions.look()

    def look_again(self, *, lost: bool) -> None:
        """Let all look at a state that was just loaded; fail those that read another history if that is ``lost``."""
        self.positions.restart()
        self.feed.restart()
        for waiters in (self.keys, self.takers.waiters):
            waiters.look_again(lost=lost)

    def close(self) -> int:
        """End every wait; return how many there were. Idempotent."""
        return self.keys.close() + self.takers.waiters.close()

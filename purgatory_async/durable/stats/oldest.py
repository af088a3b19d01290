"""What has waited longest: the oldest item that any queue has ready, for each scrape and survey; the oldest question.

A step of the fold spends nothing on the item. So each search goes through the queues, some thousand in a pass of the
loop. The fold has the questions in order.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from purgatory_async.durable.fold.items import DEAD, Queue
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.state import State

STEPS: Final = 4096  # queues in one pass


class OldestItem:
    """The oldest ready item as of the last look. Dead queues are left out: no taker is expected for their items."""

    def __init__(self, state: State) -> None:
        self._state: Final = state
        self._put_us: int | None = None

    def __repr__(self) -> str:
        return f"<OldestItem age={self.age}>"

    @property
    def age(self) -> float | None:
        """Seconds since it was put; None if there is none. O(1)."""
        if self._put_us is None:
            return None
        return max(self._state.now_us() - self._put_us, 0) / SECOND

    async def look(self) -> None:
        """Search for it again. O(queues), in passes."""
        queues = list(self._state.fold.queues.by_name.values())
        found = list[int]()
        for start in range(0, len(queues), STEPS):
            if start:
                await asyncio.sleep(0)
            found += _oldest(queues[start : start + STEPS])
        self._put_us = min(found, default=None)


def oldest_question(state: State) -> float | None:
    """Return for how many seconds the oldest question has waited; None if none waits. O(1)."""
    oldest = state.fold.operations.questions.oldest
    return None if oldest is None else max(state.now_us() - oldest.submitted_us, 0) / SECOND


def _oldest(queues: Iterable[Queue]) -> list[int]:
    """Return when the oldest item of some queues was put, at most one; 0 is an unknown time."""
    times = (queue.ready[0].put_us for queue in queues if queue.ready and not queue.name.endswith(DEAD))
    oldest = min(filter(None, times), default=None)
    return [] if oldest is None else [oldest]

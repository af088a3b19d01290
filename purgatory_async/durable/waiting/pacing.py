"""Ends thousands of operations a few at a time, so that the loop turns in between.

An ended wait costs the answer to its request, some 50 us. A thousand of them in one pass of the loop would delay
all others by as many (python -m bench.service --only held).
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from purgatory_async import DelayedOperation

SLICE: Final = 32
"""Operations that are completed in one pass of the loop: with their answers 3 ms."""

T = TypeVar("T")


def in_turn(snapshot: Iterable[T]) -> Iterator[T]:
    """Iterate over a snapshot, and keep nothing that had its turn: to free thousands in one pass takes 10 ms. O(n)."""
    waiting = deque(snapshot)
    del snapshot
    while waiting:
        yield waiting.popleft()


class Pace:
    """Completes operations, at most `SLICE` in a pass of the loop."""

    def __init__(self) -> None:
        self._batches: Final[deque[Iterator[DelayedOperation[Any]]]] = deque()
        self._left = SLICE  # in this pass
        self._scheduled = False

    def __repr__(self) -> str:
        return f"<Pace batches={len(self._batches)}>"

    def complete(self, operations: Iterable[DelayedOperation[Any]]) -> None:
        """Complete those that are pending when their turn comes, in this order. O(slice) now.

        As many as this pass allows are completed at once, the rest in later ones. Batches take turns, so that a small
        one does not wait for a large one that came before.

        Args:
            operations: Iterated over as they are completed.
        """
        self._batches.append(iter(operations))
        self._go_on()
        if self._left < SLICE and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def finish(self) -> None:
        """Complete all that are left now, however long that takes."""
        while self._batches:
            for operation in self._batches.popleft():
                operation.force_complete()

    def _next_pass(self) -> None:
        self._left = SLICE
        self._scheduled = bool(self._batches)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._next_pass)
        self._go_on()

    def _go_on(self) -> None:
        batches = self._batches
        while batches and self._left:
            for operation in batches[0]:
                if operation.force_complete():
                    self._left -= 1
                    batches.rotate(-1)
                    break
            else:
                batches.popleft()

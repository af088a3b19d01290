"""Pending operations in order of submission, readable from any position.

A dict keeps that order too, but only iterates from its start. Here a list holds blocks of at most 512 operations:
bisection finds a position, and a removal shifts one block.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from purgatory_async.durable.fold.operations import Operation

__all__ = ["Order"]

BLOCK: Final = 512
_POSITION: Final = attrgetter("position")

_Block = list[Operation]


class Order:
    """Operations in order of their ``position``."""

    __slots__ = ("_blocks",)

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        found = list(operations)
        self._blocks: list[_Block] = [found[start : start + BLOCK] for start in range(0, len(found), BLOCK)]

    def append(self, operation: Operation) -> None:
        """Add an operation whose position is above all others. O(1)."""
        if not self._blocks or len(self._blocks[-1]) == BLOCK:
            self._blocks.append([])
        self._blocks[-1].append(operation)

    def remove(self, operation: Operation) -> None:
        """Remove an operation. O(log n + block); O(blocks) when its block becomes empty."""
        place = bisect_left(self._blocks, operation.position, key=_last)
        block = self._blocks[place]
        del block[bisect_left(block, operation.position, key=_POSITION)]
        if not block:
            del self._blocks[place]

    def after(self, position: int) -> Iterator[Operation]:
        """Iterate over the operations above a position, whether or not it is pending. O(log n), then O(1) each."""
        place = bisect_right(self._blocks, position, key=_last)
        for block in self._blocks[place : place + 1]:
            yield from block[bisect_right(block, position, key=_POSITION) :]
        for number in range(place + 1, len(self._blocks)):
            yield from self._blocks[number]


def _last(block: _Block) -> int:
    return block[-1].position

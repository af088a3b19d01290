"""The pending operations in the order of their submission, of all keys and of busy ones, readable from any position.

A dict keeps that order too, but only iterates from its start. Here a list holds blocks of at most 512 operations:
bisection finds a position, and a removal shifts one block.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.events import Handlers, Handling, OperationEnded, OperationSubmitted

BLOCK: Final = 512
BUSY: Final = 1000  # watchers of a key, from which on a listing keeps their order
MAX_BUSY: Final = 64  # such keys
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
        blocks = self._blocks
        if blocks and len(blocks[-1]) < BLOCK:
            blocks[-1].append(operation)
        else:
            blocks.append([operation])

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


class Listing(Handling):
    """Lists a fold's pending operations; observes them from then on."""

    def __init__(self, fold: Fold) -> None:
        self._purgatory: Final = fold.operations.purgatory
        self._order: Final = Order(fold.operations.pending())
        self._order_of: Final[dict[str, Order]] = {}  # of busy keys that were listed lately

    def __repr__(self) -> str:
        return f"<Listing busy_keys={len(self._order_of)}>"

    def after(self, position: int, key: str | None) -> Iterator[Operation]:
        """Iterate over the operations submitted after a position.

        Args:
            position: The position of the last one before.
            key: Only its watchers; None for all operations.

        Returns:
            Read it before operations change. O(log n) and O(1) each; for a key O(its watchers) once.
        """
        if key is None:
            return self._order.after(position)
        order = self._order_of.get(key)
        if order is None:
            order = Order(each for each in self._purgatory.operations(key) if isinstance(each, Operation))
            if next(self._purgatory.watchers([key]), (key, 0))[1] >= BUSY:
                if len(self._order_of) == MAX_BUSY:
                    del self._order_of[next(iter(self._order_of))]
                self._order_of[key] = order
        return order.after(position)

    def handlers(self) -> Handlers:
        """Add an operation that is pending now, and remove one that has ended. O(keys), and O(log n) for an end."""
        return {OperationSubmitted: self._submitted, OperationEnded: self._ended}

    def _submitted(self, event: OperationSubmitted) -> None:
        operation = event.operation
        if isinstance(operation, Operation):
            self._order.append(operation)
            if self._order_of:
                for order in self._busy_orders(operation):
                    order.append(operation)

    def _ended(self, event: OperationEnded) -> None:
        operation = event.operation
        if isinstance(operation, Operation):
            self._order.remove(operation)
            if self._order_of:
                for order in self._busy_orders(operation):
                    order.remove(operation)

    def _busy_orders(self, operation: Operation) -> Sequence[Order]:
        known = self._order_of
        return [known[key] for key in operation.watch_keys if key in known]

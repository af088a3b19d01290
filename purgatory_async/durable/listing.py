"""The pending operations in the order of their submission, of all keys and of busy ones, readable from any position."""

from collections.abc import Iterator, Sequence
from typing import Final

from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.order import Order
from purgatory_async.events import Event, OperationEnded, OperationSubmitted

__all__ = ["Listing"]

BUSY: Final = 1000  # watchers of a key, from which on a listing keeps their order
MAX_BUSY: Final = 64  # such keys


class Listing:
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
            position: Of the last one before.
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

    def notify(self, event: Event) -> None:
        """Add an operation that is pending now, and remove one that has ended. O(keys), and O(log n) for an end."""
        if isinstance(event, OperationSubmitted) and isinstance(event.operation, Operation):
            for order in self._orders_of(event.operation):
                order.append(event.operation)
        elif isinstance(event, OperationEnded) and isinstance(event.operation, Operation):
            for order in self._orders_of(event.operation):
                order.remove(event.operation)

    def _orders_of(self, operation: Operation) -> Sequence[Order]:
        known = self._order_of
        if not known:
            return (self._order,)
        return [self._order, *(known[key] for key in operation.watch_keys if key in known)]

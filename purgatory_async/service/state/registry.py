"""Operations by id, from submission until the retention time after their end; then they are forgotten.

For as long again the registry remembers the forgotten ids (410 instead of 404). Retention is one timer entry per ended
operation, so nothing sweeps. The attachments of all ended operations have a bound in bytes; above it the oldest are
forgotten early.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from purgatory_async import Purgatory, Timer, TimerHandle
from purgatory_async.events import Event, OperationEnded
from purgatory_async.service import problems
from purgatory_async.service.state.operations import Operation
from purgatory_async.service.state.order import Order
from purgatory_async.service.state.weight import Weight

BUSY: Final = 1000  # watchers of a key, from which on a listing keeps their order
MAX_BUSY: Final = 64  # such keys
MAX_KEPT: Final = 64 << 20  # bytes of the attachments of ended operations


@dataclass(frozen=True, slots=True)
class Submission:
    """What an Idempotency-Key stands for: the digest of its request's body, and the operation."""

    digest: bytes
    operation: Operation


class Registry:
    """Operations by id and by Idempotency-Key; observes the purgatory that holds them.

    Args:
        timer: Schedules the forgetting.
        retention: Seconds for which an ended operation is kept, and then its id.
    """

    def __init__(self, timer: Timer, retention: float) -> None:
        self._closed = False
        self._timer: Final = timer
        self._retention: Final = retention
        self._operations: dict[str, Operation] = {}
        self._order: Final = Order()
        self._order_of: dict[str, Order] = {}  # of busy keys that were listed lately
        # What will forget each, in the order of their ends. The first of a dict is found by a scan past all that were
        # removed before it.
        self._ended: OrderedDict[str, TimerHandle] = OrderedDict()
        self._weight: Final = Weight()
        self._forgotten: set[str] = set()
        self._submissions: dict[str, Submission] = {}
        self._idempotency_keys: dict[str, str] = {}  # by operation id

    def __repr__(self) -> str:
        return f"<Registry known={len(self._operations)} forgotten={len(self._forgotten)}>"

    @property
    def pending(self) -> int:
        """How many operations with an id are pending. O(1)."""
        return 0 if self._closed else len(self._operations) - len(self._ended)

    def check_free(self, operation_id: str) -> None:
        """Check that an id is free, as a forgotten one is. O(1).

        Raises:
            Problem: ``duplicate-id``.
        """
        if operation_id in self._operations:
            raise problems.duplicate_id(operation_id)

    def add(self, operation: Operation, idempotency_key: str | None, digest: bytes) -> None:
        """Register a pending operation under its free id, and the digest of its request's body. O(1)."""
        self._operations[operation.id] = operation
        for order in self._orders_of(operation):
            order.append(operation)
        if idempotency_key is not None:
            self._submissions[idempotency_key] = Submission(digest, operation)
            self._idempotency_keys[operation.id] = idempotency_key

    def withdraw(self, operation: Operation) -> None:
        """Remove an operation, and remember nothing of it. Idempotent. O(1)."""
        if self._operations.get(operation.id) is operation:
            self._remove(operation)

    def pending_after(self, sequence: int, key: str | None, purgatory: Purgatory) -> Iterator[Operation]:
        """Iterate over pending operations above a sequence, in the order of submission.

        Args:
            sequence: Of the last one before.
            key: Only its watchers; None for all operations.
            purgatory: Of the operations.

        Returns:
            Read it before operations change. O(log n) and O(1) each; for a key O(its watchers) once.
        """
        if key is None:
            return self._order.after(sequence)
        order = self._order_of.get(key)
        if order is None:
            # A one-shot wait, which has no id, is not listed.
            order = Order(each for each in purgatory.operations(key) if isinstance(each, Operation))
            if next(purgatory.watchers([key]), (key, 0))[1] >= BUSY:
                if len(self._order_of) == MAX_BUSY:
                    del self._order_of[next(iter(self._order_of))]
                self._order_of[key] = order
        return order.after(sequence)

    def _orders_of(self, operation: Operation) -> list[Order]:
        known = self._order_of
        return [self._order, *(known[key] for key in operation.watch_keys if key in known)]

    def find(self, operation_id: str) -> Operation:
        """Return the operation of an id, pending or ended. O(1).

        Raises:
            Problem: ``forgotten`` or ``unknown-operation``.
        """
        operation = self._operations.get(operation_id)
        if operation is not None:
            return operation
        if operation_id in self._forgotten:
            raise problems.forgotten(operation_id, self._retention, MAX_KEPT)
        raise problems.unknown_operation(operation_id)

    def replayed(self, idempotency_key: str, digest: bytes) -> Operation | None:
        """Return the operation that an earlier request with this key submitted; None if the key is new. O(1).

        Raises:
            Problem: ``idempotency-mismatch``: that request had another body.
        """
        submission = self._submissions.get(idempotency_key)
        if submission is None:
            return None
        if submission.digest != digest:
            raise problems.idempotency_mismatch(idempotency_key)
        return submission.operation

    def notify(self, event: Event) -> None:
        """Start the retention time of an operation that ended."""
        if isinstance(event, OperationEnded) and isinstance(event.operation, Operation):
            operation = event.operation
            operation.ended = self._timer.time()
            for order in self._orders_of(operation):
                order.remove(operation)
            if not (self._closed or self._timer.closed):
                self._keep(operation)

    def close(self) -> None:
        """Start no more retention times: all operations are about to end."""
        self._closed = True

    def _keep(self, operation: Operation) -> None:
        self._ended[operation.id] = self._timer.call_later(self._retention, self._forget, operation)
        self._weight.put_on(operation)
        # Keep the newest whatever its size: its client has yet to read it.
        while self._weight.total > MAX_KEPT and len(self._ended) > 1:
            self._forget(self._operations[next(iter(self._ended))])

    def _forget(self, operation: Operation) -> None:
        self._remove(operation)
        # A reused id is found among the operations first, and forgotten again only after this entry is gone.
        self._forgotten.add(operation.id)
        self._timer.call_later(self._retention, self._forgotten.discard, operation.id)

    def _remove(self, operation: Operation) -> None:
        self._ended.pop(operation.id).cancel()
        self._weight.take_off(operation)
        del self._operations[operation.id]
        idempotency_key = self._idempotency_keys.pop(operation.id, None)
        if idempotency_key is not None:
            del self._submissions[idempotency_key]

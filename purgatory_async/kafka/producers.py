"""Idempotent producers of a partition: which of their batches it has.

A producer numbers its records. A batch must follow the last one; one of the last five, sent again because its answer
was lost, is recognised and not appended again.
"""

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from purgatory_async.kafka.batches import Batch
from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["Producers"]

_REMEMBERED: Final = 5  # as many batches as a producer may have in flight
_MAX_PRODUCERS: Final = 10_000  # the one silent for longest is forgotten
_SEQUENCES: Final = 1 << 31  # after the greatest comes 0
_NOT_IDEMPOTENT: Final = -1


class _Appended(NamedTuple):
    first: int
    last: int
    offset: int


class _Producer:
    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[_Appended] = deque(maxlen=_REMEMBERED)


class Producers:
    """The idempotent producers of one partition, the most recent ones."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: OrderedDict[int, _Producer] = OrderedDict()

    def check(self, batch: Batch) -> int | None:
        """Check a batch before it is appended. O(1).

        Returns:
            The offset where the partition has this batch already; None for a new one.

        Raises:
            ProtocolError: invalid_producer_epoch for an older epoch, out_of_order_sequence_number for a gap.
        """
        known = self._producers.get(batch.producer_id)
        if batch.producer_id == _NOT_IDEMPOTENT or known is None:
            return None  # a producer that was forgotten may go on where it was
        if batch.producer_epoch < known.epoch:
            raise ProtocolError(
                ErrorCode.invalid_producer_epoch,
                f"producer {batch.producer_id} must use epoch {known.epoch}, got {batch.producer_epoch}",
            )
        expected = 0
        if batch.producer_epoch == known.epoch:
            last = (batch.base_sequence + batch.last_offset_delta) % _SEQUENCES
            for appended in known.batches:
                if (appended.first, appended.last) == (batch.base_sequence, last):
                    return appended.offset
            expected = (known.batches[-1].last + 1) % _SEQUENCES
        if batch.base_sequence != expected:
            raise ProtocolError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {batch.producer_id} must go on with sequence {expected}, got {batch.base_sequence}",
            )
        return None

    def appended(self, batch: Batch, offset: int) -> None:
        """Remember a batch that was appended at ``offset``. O(1)."""
        if batch.producer_id == _NOT_IDEMPOTENT:
            return
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        self._producers.move_to_end(batch.producer_id)
        last = (batch.base_sequence + batch.last_offset_delta) % _SEQUENCES
        known.batches.append(_Appended(batch.base_sequence, last, offset))
        if len(self._producers) > _MAX_PRODUCERS:
            self._producers.popitem(last=False)

    def clear(self) -> None:
        """Forget all. O(producers)."""
        self._producers.clear()

"""A replica's log with what its batches show: where each leader epoch begins, and which producers it has heard.

Kafka's UnifiedLog. Epochs and producers always match the batches that the log has: whatever appends, truncates or
resets goes through here.
"""

from typing import Final

from purgatory_async.kafka.batches import NO_TIME, Batch, read_batches, stamped
from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.epochs import NO_EPOCH, Epochs
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.producers import Producers
from purgatory_async.kafka.segments import Bytes, Log

__all__ = ["UnifiedLog"]

_EVERYTHING: Final = 1 << 62


class UnifiedLog(Log):
    """A `Log` that knows its epochs and its producers."""

    __slots__ = ("_epochs", "_producers")

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._epochs: Final = Epochs()
        self._producers: Final = Producers()

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch; `NO_EPOCH` without one."""
        return self._epochs.last

    def append(self, data: Bytes, batch: Batch, leader_epoch: int) -> int:
        """Append a batch as `Log.append`, and note its epoch and its producer. O(bytes)."""
        offset = super().append(data, batch, leader_epoch)
        self._epochs.appended(leader_epoch, offset)
        self._producers.appended(batch, offset)
        return offset

    def append_once(self, data: Bytes, batch: Batch, leader_epoch: int, stamp_ms: int | None) -> int:
        """Append a producer's batch, or find it as one appended before. O(bytes).

        Args:
            data: The batch's bytes.
            batch: Its header, which is valid.
            leader_epoch: Written into it.
            stamp_ms: The time that its records get, in milliseconds since 1970; None leaves them their own.

        Returns:
            The offset of its first record.

        Raises:
            ProtocolError: As `Producers.check`, or kafka_storage_error beyond the budget.
        """
        offset = self._producers.check(batch)
        if offset is not None:
            return offset
        if stamp_ms is not None:
            data, batch = stamped(data, batch, stamp_ms)
        return self.append(data, batch, leader_epoch)

    def append_copies(self, records: Bytes) -> None:
        """Append a leader's batches, with the epochs that they have. O(bytes).

        Raises:
            ProtocolError: corrupt_message if the batches are torn, offset_out_of_range if they do not follow the end,
                kafka_storage_error beyond the budget. Those before are appended.
        """
        for batch in read_batches(records):
            if not self.size_bytes and batch.base_offset < self.end < batch.next_offset:
                self.end = batch.base_offset  # the leader deleted a part of this batch only
            if batch.base_offset != self.end:
                raise ProtocolError(
                    ErrorCode.offset_out_of_range,
                    f"the next batch must begin at offset {self.end}, got {batch.base_offset}",
                )
            self.append(records[batch.at : batch.at + batch.size_bytes], batch, batch.leader_epoch)

    def truncate(self, offset: int) -> None:
        """Drop records as `Log.truncate`, their epochs, and what only they show of producers. O(records left)."""
        super().truncate(offset)
        self._epochs.truncate(self.end)
        self._producers.clear()
        for view in self.read(self.start, self.end, _EVERYTHING, at_least_one=False):
            for batch in read_batches(view):
                self._producers.appended(batch, batch.base_offset)

    def reset(self, offset: int) -> None:
        """Drop all, and begin again at ``offset``. O(segments)."""
        super().reset(offset)
        self._epochs.truncate(0)
        self._producers.clear()

    def drop_diverging(self, epoch: int, end: int, leader_start: int) -> None:
        """Drop what the leader has not; `diverging` is its answer. O(records left), which are read.

        Args:
            epoch: The greatest epoch that the leader has, up to the last batch's here.
            end: Where that epoch ends on the leader.
            leader_start: The first offset that the leader has.
        """
        shared = self._epochs.end_of(epoch, self.end)
        offset = -1 if shared is None else min(end, shared[1])
        if offset < max(self.start, leader_start):
            self.reset(leader_start)
        else:
            self.truncate(offset)

    def continues(self, offset: int, epoch: int) -> bool:
        """Whether a follower can go on from ``offset``, where its last batch of ``epoch`` ends. O(log epochs)."""
        if not self.start <= offset <= self.end:
            return False
        return epoch == NO_EPOCH or (
            (shared := self._epochs.end_of(epoch, self.end)) is not None
            and shared[0] == epoch
            and offset <= shared[1]
        )

    def diverging(self, epoch: int) -> tuple[int, int]:
        """Where a follower that cannot go on still has the same: the greatest epoch up to its own, and its end here.

        O(log epochs).
        """
        return self._epochs.end_of(epoch, self.end) or (NO_EPOCH, self.start)

    def append_time_ms(self, offset: int) -> int:
        """The broker's time of the batch at an offset; -1 if its records have their producers'. O(log batches)."""
        for view in self.read(offset, offset + 1, 0, at_least_one=True):
            batch = next(read_batches(view))
            return batch.max_timestamp if batch.has_append_time else NO_TIME
        return NO_TIME

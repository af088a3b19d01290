"""Kafka's DelayedProduce and DelayedDeleteRecords: a write waits until every replica in sync has it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from purgatory_async import DelayedOperation
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.partition import Partition

__all__ = ["DelayedWrite", "DeleteStatus", "PartitionStatus"]


class _Status(ABC):
    """The progress of a write in one partition.

    Attributes:
        partition: Where.
        required_offset: The one to reach.
        error: `ErrorCode.none` unless it failed.
        pending: Whether the answer is open.
    """

    __slots__ = ("error", "partition", "pending", "required_offset")

    def __init__(self, partition: Partition, required_offset: int) -> None:
        self.partition: Final = partition
        self.required_offset: Final = required_offset
        self.error = ErrorCode.none
        self.pending = True

    @abstractmethod
    def _found(self) -> ErrorCode | None:
        """Look at a partition that was not deleted; None while the answer is open."""

    def settle(self) -> bool:
        """Look at the partition; returns whether the answer is known."""
        if self.pending:
            error = ErrorCode.unknown_topic_or_partition if self.partition.deleted else self._found()
            if error is not None:
                self._end(error)
        return not self.pending

    def expire(self) -> None:
        """Answer that the time ran out, unless the answer is known."""
        if self.pending:
            self._end(ErrorCode.request_timed_out)

    def _end(self, error: ErrorCode) -> None:
        self.error = error
        self.pending = False


class PartitionStatus(_Status):
    """The progress of a produce in one partition: ``required_offset`` is the high watermark to reach.

    Attributes:
        base_offset: The offset of the first record.
        append_time_ms: The broker's time that the records got; -1 if they have their producers'.
    """

    __slots__ = ("append_time_ms", "base_offset")

    def __init__(
        self, partition: Partition, base_offset: int, required_offset: int, append_time_ms: int = -1
    ) -> None:
        super().__init__(partition, required_offset)
        self.append_time_ms: Final = append_time_ms
        self.base_offset: Final = base_offset

    def _found(self) -> ErrorCode | None:
        if self.partition.high_watermark < self.required_offset:
            return None
        enough = self.partition.enough_in_sync()
        return ErrorCode.none if enough else ErrorCode.not_enough_replicas_after_append


class DeleteStatus(_Status):
    """The progress of deleting in one partition: ``required_offset`` is the low watermark to reach."""

    __slots__ = ()

    def _found(self) -> ErrorCode | None:
        return None if self.partition.low_watermark < self.required_offset else ErrorCode.none


class DelayedWrite(DelayedOperation[None]):
    """Completes when every partition has answered; at its timeout those short answer request_timed_out.

    Args:
        statuses: One for each partition that was written to.
        timeout: Seconds.
    """

    __slots__ = ("_statuses",)

    def __init__(self, statuses: Sequence[_Status], timeout: float) -> None:
        super().__init__(timeout)
        self._statuses: Final = statuses

    def try_complete(self) -> bool:
        """Complete if no partition's answer is open."""
        settled = [status.settle() for status in self._statuses]
        return all(settled) and self.force_complete()

    def on_expiration(self) -> None:
        """Answer for the partitions still open."""
        for status in self._statuses:
            status.expire()

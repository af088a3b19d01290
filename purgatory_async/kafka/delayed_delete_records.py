"""Kafka's DelayedDeleteRecords: deleting waits until every replica in sync has deleted too."""

from typing import Final

from purgatory_async import DelayedOperation
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.partition import Partition

__all__ = ["DelayedDeleteRecords", "DeleteStatus"]


class DeleteStatus:
    """What deleting has come to in one partition.

    Attributes:
        partition: Where.
        required_offset: The low watermark to reach.
        error: `ErrorCode.none` unless it failed.
        pending: Whether the answer is open.
    """

    __slots__ = ("error", "partition", "pending", "required_offset")

    def __init__(self, partition: Partition, required_offset: int) -> None:
        self.partition: Final = partition
        self.required_offset: Final = required_offset
        self.error = ErrorCode.none
        self.pending = True

    def settle(self) -> bool:
        """Look at the partition; returns whether the answer is known."""
        if self.pending and self.partition.deleted:
            self.error = ErrorCode.unknown_topic_or_partition
            self.pending = False
        elif self.pending:
            self.pending = self.partition.low_watermark < self.required_offset
        return not self.pending

    def expire(self) -> None:
        """Answer that the time ran out, unless the answer is known."""
        if self.pending:
            self.error = ErrorCode.request_timed_out
            self.pending = False


class DelayedDeleteRecords(DelayedOperation[None]):
    """Completes when every partition's low watermark has reached its offset.

    Args:
        statuses: One for each partition that deletes.
        timeout: Seconds.
    """

    __slots__ = ("_statuses",)

    def __init__(self, statuses: list[DeleteStatus], timeout: float) -> None:
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

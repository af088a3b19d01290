"""Kafka's DelayedProduce: a produce with acks=all waits until all replicas in sync have its records."""

from typing import Final

from purgatory_async import DelayedOperation
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.partition import Partition

__all__ = ["DelayedProduce", "PartitionStatus"]


class PartitionStatus:
    """What a produce has come to in one partition.

    Attributes:
        partition: Where the records are.
        required_offset: The high watermark at which all replicas in sync have them.
        base_offset: Of the first record.
        append_time_ms: The broker's time that the records got; -1 if they have their producers'.
        error: `ErrorCode.none` unless the records may be lost.
        pending: Whether the answer is open.
    """

    __slots__ = ("append_time_ms", "base_offset", "error", "partition", "pending", "required_offset")

    def __init__(
        self, partition: Partition, base_offset: int, required_offset: int, append_time_ms: int = -1
    ) -> None:
        self.partition: Final = partition
        self.append_time_ms: Final = append_time_ms
        self.base_offset: Final = base_offset
        self.required_offset: Final = required_offset
        self.error = ErrorCode.none
        self.pending = True

    def settle(self) -> bool:
        """Look at the partition; returns whether the answer is known."""
        if self.pending:
            if self.partition.deleted:
                self._end(ErrorCode.unknown_topic_or_partition)
            elif self.partition.high_watermark >= self.required_offset:
                enough = self.partition.enough_in_sync()
                self._end(ErrorCode.none if enough else ErrorCode.not_enough_replicas_after_append)
        return not self.pending

    def expire(self) -> None:
        """Answer that the time ran out, unless the answer is known."""
        if self.pending:
            self._end(ErrorCode.request_timed_out)

    def _end(self, error: ErrorCode) -> None:
        self.error = error
        self.pending = False


class DelayedProduce(DelayedOperation[None]):
    """Completes when every partition has answered; at its timeout those short answer request_timed_out.

    Args:
        statuses: One for each partition that took records.
        timeout: Seconds.
    """

    __slots__ = ("_statuses",)

    def __init__(self, statuses: list[PartitionStatus], timeout: float) -> None:
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

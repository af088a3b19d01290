"""The offsets that a group has committed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["MAX_METADATA_CHARACTERS", "NO_OFFSET", "CommittedOffset", "CommittedOffsets", "TopicPartition"]

TopicPartition = tuple[str, int]
"""A topic's name and the index of a partition."""

MAX_METADATA_CHARACTERS: Final = 4096
"""Kafka's default, ``offset.metadata.max.bytes``."""
_OFFSET_BYTES: Final = 256  # of one, beside its metadata; measured with tracemalloc


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group goes on reading a partition.

    Attributes:
        offset: The offset of the next record to read.
        leader_epoch: The epoch of the last record read; -1 if the client did not send one.
        metadata: The client's own note.

    Raises:
        ProtocolError: ``offset_metadata_too_large``.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""

    def __post_init__(self) -> None:
        length = len(self.metadata)
        if length > MAX_METADATA_CHARACTERS:
            raise ProtocolError(
                ErrorCode.offset_metadata_too_large,
                f"metadata must be at most {MAX_METADATA_CHARACTERS} characters long, got {length}",
            )


NO_OFFSET: Final = CommittedOffset(-1)
"""The answer for a partition without a committed offset; it is no error."""


class CommittedOffsets:
    """The committed offsets of one group, by partition.

    Args:
        budget: Where they are counted.
    """

    __slots__ = ("_budget", "_by_partition")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_partition: dict[TopicPartition, CommittedOffset] = {}

    def __len__(self) -> int:
        return len(self._by_partition)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Replace the offsets of these partitions. O(partitions).

        Raises:
            ProtocolError: ``invalid_commit_offset_size`` if the groups would hold too many bytes; nothing changes.
        """
        before = self._by_partition
        more = sum(
            _bytes_of(offset) - (_bytes_of(before[place]) if place in before else 0)
            for place, offset in offsets.items()
        )
        self._budget.take(more, ErrorCode.invalid_commit_offset_size)
        self._by_partition.update(offsets)

    def fetch(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets of the partitions, `NO_OFFSET` where none is committed; all for None. O(partitions)."""
        if partitions is None:
            return dict(self._by_partition)
        return {partition: self._by_partition.get(partition, NO_OFFSET) for partition in partitions}

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a deleted topic. O(committed offsets)."""
        self.forget([partition for partition in self._by_partition if partition[0] == topic])

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the offsets of these partitions. O(partitions)."""
        for partition in partitions:
            if partition in self._by_partition:
                self._budget.take(-_bytes_of(self._by_partition.pop(partition)))


def _bytes_of(offset: CommittedOffset) -> int:
    return _OFFSET_BYTES + len(offset.metadata)

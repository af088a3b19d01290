"""Kafka's DelayedFetch: a fetch waits until there are enough bytes, an error, or its time is up."""

from typing import Final, NamedTuple

from purgatory_async import DelayedOperation
from purgatory_async.kafka.errors import ProtocolError
from purgatory_async.kafka.partition import Partition

__all__ = ["DelayedFetch", "FetchFrom"]


class FetchFrom(NamedTuple):
    """A fetch's part for one partition.

    Attributes:
        partition: To read.
        offset: From here.
        max_bytes: For this partition.
        known_high_watermark: When the fetch came; a follower is answered when it has moved.
    """

    partition: Partition
    offset: int
    max_bytes: int
    known_high_watermark: int


class DelayedFetch(DelayedOperation[None]):
    """Completes when ``min_bytes`` can be read, or one partition answers with an error.

    For a follower it completes, too, when a high watermark has moved, so that the follower learns it. The answer is
    read afterwards, by the task that waits: many fetches may wait for one record.

    Args:
        parts: What to read.
        min_bytes: Enough to answer.
        timeout: Seconds.
        follower: Whether a replica fetches, which reads beyond the high watermark.
    """

    __slots__ = ("_follower", "_min_bytes", "_parts")

    def __init__(self, parts: list[FetchFrom], *, min_bytes: int, timeout: float, follower: bool) -> None:
        super().__init__(timeout)
        self._parts: Final = parts
        self._min_bytes: Final = min_bytes
        self._follower: Final = follower

    def try_complete(self) -> bool:
        """Complete if there is enough."""
        available = 0
        for partition, offset, max_bytes, known_high_watermark in self._parts:
            try:
                partition.check_offset(offset)
            except ProtocolError:
                return self.force_complete()
            if self._follower and partition.high_watermark > known_high_watermark:
                return self.force_complete()
            until = partition.readable_to(follower=self._follower)
            if until > offset:
                if self._min_bytes <= 1:  # as most clients ask; a herd of them is checked at each record
                    return self.force_complete()
                available += min(max_bytes, partition.log.bytes_between(offset, until))
        return available >= self._min_bytes and self.force_complete()

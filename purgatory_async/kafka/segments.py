"""A partition's log in memory: segments of whole batches, and an index of them.

A segment is one block of memory that is only appended to. Readers get views of it, so a fetch copies nothing; for
that reason a segment never shrinks, and a truncated one takes no more batches.
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import chain
from typing import Final

from purgatory_async.kafka.batches import Batch, place
from purgatory_async.kafka.budget import Budget

__all__ = ["Bytes", "Log"]

Bytes = bytes | bytearray | memoryview

_SMALLEST_BYTES: Final = 1 << 12
_LARGEST_BYTES: Final = 1 << 20
_NO_TIME: Final = -(1 << 63)


class _Segment:
    """Consecutive batches in one block.

    Attributes:
        offsets: First offset of each batch.
        ends: Position after each batch, in bytes.
        times: Greatest timestamp of each batch, in milliseconds.
        sure: Whether that is known from the batch's records, or would be the same; otherwise from its header alone.
        newest: The greatest of ``times``.
        next_offset: After its last record.
        before_bytes: Bytes of the batches ever appended before it.
        sealed: Whether it takes no more batches.
    """

    __slots__ = (
        "before_bytes",
        "block",
        "ends",
        "newest",
        "next_offset",
        "offsets",
        "sealed",
        "sure",
        "times",
    )

    def __init__(self, capacity_bytes: int, next_offset: int, before_bytes: int) -> None:
        self.block = bytearray(capacity_bytes)
        self.offsets = array("q")
        self.ends = array("q")
        self.times = array("q")
        self.sure = bytearray()
        self.newest = _NO_TIME
        self.next_offset = next_offset
        self.before_bytes = before_bytes
        self.sealed = False

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        return self.ends[-1] if self.ends else 0

    def takes(self, size_bytes: int) -> bool:
        """Whether a batch of that size fits."""
        return not self.sealed and self.size_bytes + size_bytes <= len(self.block)

    def append(self, data: Bytes, batch: Batch, offset: int, leader_epoch: int) -> None:
        """Append a batch at an offset."""
        start = self.size_bytes
        end = start + len(data)
        self.block[start:end] = data
        place(self.block, start, offset, leader_epoch)
        self.times.append(batch.greatest_time)
        self.sure.append(batch.has_sure_time)
        self.newest = max(self.newest, batch.greatest_time)
        self.offsets.append(offset)
        self.ends.append(end)
        self.next_offset = offset + batch.last_offset_delta + 1

    def start_of(self, index: int) -> int:
        """Position of a batch, in bytes."""
        return self.ends[index - 1] if index else 0

    def index_of(self, offset: int) -> int:
        """Place of the batch of an offset, or of the first one."""
        return max(0, bisect_right(self.offsets, offset) - 1)

    def cut(self, index: int) -> None:
        """Drop the batches from ``index`` on; what readers hold stays as it is."""
        self.next_offset = self.offsets[index]
        del self.offsets[index:], self.ends[index:], self.times[index:], self.sure[index:]
        self.newest = max(self.times, default=_NO_TIME)
        self.sealed = True


class Log:
    """Batches in the order of their offsets, without gaps.

    Args:
        budget: Where its memory is counted.

    Attributes:
        start: The first offset that may be read.
        end: The offset after the last record.
    """

    __slots__ = ("_budget", "_segments", "end", "start")

    def __init__(self, budget: Budget) -> None:
        self._budget: Final = budget
        self._segments: list[_Segment] = []
        self.start = 0
        self.end = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments it holds. O(1)."""
        if not self._segments:
            return 0
        last = self._segments[-1]
        return last.before_bytes + last.size_bytes - self._segments[0].before_bytes

    def append(self, data: Bytes, batch: Batch, leader_epoch: int) -> int:
        """Append a batch, and write its place into it. O(bytes).

        Args:
            data: The batch's bytes.
            batch: Its header.
            leader_epoch: Written into it.

        Returns:
            The offset of its first record.

        Raises:
            ProtocolError: kafka_storage_error beyond the budget.
        """
        self._budget.take(len(data))
        if not self._segments or not self._segments[-1].takes(len(data)):
            self._segments.append(self._next_segment(len(data)))
        offset = self.end
        self._segments[-1].append(data, batch, offset, leader_epoch)
        self.end = self._segments[-1].next_offset
        return offset

    def bytes_between(self, offset: int, until: int) -> int:
        """Bytes of the batches from the one with ``offset`` to before the one with ``until``. O(log batches)."""
        return max(0, self._position(until) - self._position(offset))

    def read(self, offset: int, until: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Read whole batches, without copying. O(log batches + segments read).

        Args:
            offset: In the first batch to return.
            until: Batches that begin here or later are left out.
            max_bytes: The most bytes of all that is returned.
            at_least_one: Return the first batch even if it has more.
        """
        views: list[memoryview] = []
        for number in range(self._segment_of(offset), len(self._segments)):
            segment = self._segments[number]
            first = segment.index_of(offset)
            start = segment.start_of(first)
            last = min(bisect_left(segment.offsets, until), bisect_right(segment.ends, start + max_bytes))
            if last <= first and at_least_one and not views and segment.offsets[first] < until:
                last = first + 1
            if last <= first:
                break
            views.append(memoryview(segment.block)[start : segment.ends[last - 1]].toreadonly())
            max_bytes -= len(views[-1])
            if last < len(segment.offsets):
                break
        return views

    def batch_at(self, timestamp: int, offset: int) -> memoryview | None:
        """Find the first batch that may have a record at ``timestamp`` milliseconds or later.

        O(segments + batches of one).

        Args:
            timestamp: To look for.
            offset: Batches that end before it are passed over.

        Returns:
            The batch, without copying; None if there is none.
        """
        for segment in self._segments[self._segment_of(offset) :]:
            if segment.newest >= timestamp or 0 in segment.sure:
                for index in range(segment.index_of(offset), len(segment.times)):
                    if segment.times[index] >= timestamp or not segment.sure[index]:
                        whole = memoryview(segment.block).toreadonly()
                        return whole[segment.start_of(index) : segment.ends[index]]
        return None

    def learn_time(self, batch: Batch, timestamp: int) -> None:
        """Take the greatest timestamp of a batch's records, unless it is known or the batch has gone. O(batches)."""
        number = self._segment_of(batch.base_offset)
        if number == len(self._segments):
            return
        segment = self._segments[number]
        index = segment.index_of(batch.base_offset)
        if segment.offsets[index] == batch.base_offset and not segment.sure[index]:
            was, segment.times[index], segment.sure[index] = segment.times[index], timestamp, True
            segment.newest = max(segment.times) if was == segment.newest else max(segment.newest, timestamp)

    def newest(self, offset: int) -> int | None:
        """The greatest timestamp of the batches that end after ``offset``, as far as it is known.

        O(segments + batches of one).
        """
        segments = self._segments[self._segment_of(offset) :]
        of_first = segments[0].times[segments[0].index_of(offset) :] if segments else ()
        return max(chain(of_first, (segment.newest for segment in segments[1:])), default=None)

    def trim(self, offset: int) -> None:
        """Move the start up to ``offset``; segments wholly before it are freed. O(segments freed)."""
        self.start = max(self.start, offset)
        before = self.size_bytes
        gone = 0
        while gone < len(self._segments) and self._segments[gone].next_offset <= self.start:
            gone += 1
        del self._segments[:gone]
        self._budget.take(self.size_bytes - before)

    def truncate(self, offset: int) -> None:
        """Drop the records from the batch of ``offset`` on; the end is then at most ``offset``. O(batches dropped)."""
        before = self.size_bytes
        while self._segments and self._segments[-1].offsets[0] >= offset:
            self._segments.pop()
        if self._segments and (last := self._segments[-1]).next_offset > offset:
            last.cut(bisect_right(last.offsets, offset) - 1)
            if not last.ends:
                self._segments.pop()
        self._budget.take(self.size_bytes - before)
        self.end = self._segments[-1].next_offset if self._segments else min(self.end, offset)
        self.start = min(self.start, self.end)

    def reset(self, offset: int) -> None:
        """Drop all records and begin again at ``offset``. O(segments)."""
        self._budget.take(-self.size_bytes)
        self._segments.clear()
        self.start = self.end = offset

    def _next_segment(self, size_bytes: int) -> _Segment:
        """A segment twice as large as the last: a thousand small topics must not cost a gigabyte."""
        last = self._segments[-1] if self._segments else None
        capacity = min(_LARGEST_BYTES, 2 * len(last.block) if last else _SMALLEST_BYTES)
        before = last.before_bytes + last.size_bytes if last else 0
        return _Segment(max(capacity, size_bytes), self.end, before)

    def _segment_of(self, offset: int) -> int:
        return bisect_right(self._segments, offset, key=_next_offset)

    def _position(self, offset: int) -> int:
        """Bytes ever appended before the batch of ``offset``."""
        number = self._segment_of(offset)
        if number == len(self._segments):
            return self._segments[-1].before_bytes + self._segments[-1].size_bytes if self._segments else 0
        segment = self._segments[number]
        return segment.before_bytes + segment.start_of(segment.index_of(offset))


def _next_offset(segment: _Segment) -> int:
    return segment.next_offset

"""Finds records by their content: by timestamp, in milliseconds, or those that a topic refuses.

The headers of batches do not show enough, and not every client writes the greatest timestamp into them. So a search
by time opens batches, which may be compressed; each one that it passes over only once. Nothing else opens a batch.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from purgatory_async.kafka.batches import HEADER_BYTES, Batch, read_batches
from purgatory_async.kafka.codecs import decompress
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.segments import Log

__all__ = ["Finder", "Found"]

_SLICE: Final = 1_000  # records read in a turn of the loop, in 1 to 2 ms
_LAST: Final = (1 << 63) - 1
_NEVER: Final = -_LAST - 1
_MORE: Final = 0x80  # set in each byte of a variable-length integer but the last
_MAX_BITS: Final = 63


class Found(NamedTuple):
    """A record.

    Attributes:
        offset: Its place in the partition.
        timestamp: In milliseconds.
        leader_epoch: The epoch of the leader that appended it.
    """

    offset: int
    timestamp: int
    leader_epoch: int


class Finder:
    """Finds records for all clients of a broker: one batch at a time, so that memory and turns are bounded."""

    __slots__ = ("_one",)

    def __init__(self) -> None:
        self._one: Final = asyncio.Lock()

    async def first_at(self, log: Log, timestamp: int) -> Found | None:
        """Find the first record at a timestamp or later. O(records before it), of which most are read only once.

        Raises:
            ProtocolError: invalid_record or unsupported_compression_type, if a batch cannot be opened that has such a
                record by its header.
        """
        offset = log.start
        while (data := log.batch_at(timestamp, offset)) is not None:
            (batch,) = read_batches(data)
            found = await self._look(log, batch, data, offset, timestamp)
            if found.timestamp < timestamp:  # those at that time are deleted, or there are none
                offset = batch.next_offset
            elif found.offset >= log.start:
                return found
            offset = max(offset, log.start)
        return None

    async def newest(self, log: Log) -> Found | None:
        """Find the first record with the greatest timestamp; costs and errors as `first_at`."""
        await self.first_at(log, _LAST)  # reads what was not read before
        while True:
            found, offset = None, log.start
            while (most := log.newest(offset)) is not None and (found is None or found.timestamp < most):
                data = log.batch_at(most, offset)
                assert data is not None, f"{log!r} has no batch at {most}"
                (batch,) = read_batches(data)
                other = await self._look(log, batch, data, offset, most)
                if found is None or other.timestamp > found.timestamp:
                    found = other
                offset = batch.next_offset
            if found is None or found.offset >= log.start:
                return found

    async def rejected(
        self, batch: Batch, data: memoryview, judge: Callable[[int, bool], ErrorCode]
    ) -> dict[int, ErrorCode]:
        """Judge each record of a batch. O(bytes of the opened batch).

        Args:
            batch: The header.
            data: The batch, whose checksum is right.
            judge: Is given a record's timestamp and whether it has a key; returns `ErrorCode.none` or what is wrong.

        Returns:
            The errors, by the records' numbers in the batch.

        Raises:
            ProtocolError: As `first_at`.
        """
        errors: dict[int, ErrorCode] = {}
        async with self._one:
            records = await _opened(batch, data[HEADER_BYTES:])
            for number, (time, at) in enumerate(_timestamps(batch, records)):
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
                code = judge(time, _has_key(batch, number, records, at))
                if code is not ErrorCode.none:
                    errors[number] = code
        return errors

    async def _look(self, log: Log, batch: Batch, data: memoryview, offset: int, timestamp: int) -> Found:
        """The first record of a batch, from ``offset`` on, at a timestamp; or the first with the greatest one."""
        first = max(offset, batch.base_offset)
        if batch.has_sure_time:
            return Found(first, batch.greatest_time, batch.leader_epoch)
        greatest, found = _NEVER, Found(first, _NEVER, batch.leader_epoch)
        async with self._one:
            try:
                records = await _opened(batch, data[HEADER_BYTES:])
                for number, (time, _) in enumerate(_timestamps(batch, records)):
                    if number % _SLICE == 0:
                        await asyncio.sleep(0)
                    greatest = max(greatest, time)
                    if batch.base_offset + number >= first and time > found.timestamp:
                        found = Found(batch.base_offset + number, time, batch.leader_epoch)
                        if time >= timestamp:
                            return found
            except ProtocolError:
                greatest = batch.greatest_time  # its header is believed
                if greatest >= timestamp:
                    raise
        log.learn_time(batch, greatest)
        return found


async def _opened(batch: Batch, records: memoryview) -> memoryview:
    """The records of a batch as they were before they were compressed, which is undone in a thread."""
    if not batch.codec:
        return records
    opening = asyncio.ensure_future(asyncio.to_thread(decompress, batch.codec, records))
    try:
        return await asyncio.shield(opening)
    finally:  # when the caller is cancelled the thread goes on, and no other may open meanwhile
        await asyncio.wait([opening])


def _timestamps(batch: Batch, records: memoryview) -> Iterator[tuple[int, int]]:
    """Read the timestamp of each record, in order, and where the rest of it begins. O(1) each.

    Raises:
        ProtocolError: invalid_record for a damaged one.
    """
    at = 0
    for number in range(batch.records):
        try:
            length, at = _varint(records, at)
            delta, read_to = _varint(records, at + 1)  # after the attributes
        except IndexError:
            raise _damaged(batch, number) from None
        at += length
        time = batch.base_timestamp + delta
        if not read_to < at <= len(records) or not _NEVER < time < _LAST:
            raise _damaged(batch, number)
        yield time, read_to


def _has_key(batch: Batch, number: int, records: memoryview, at: int) -> bool:
    """Whether a record, of which the timestamp is read, has a key. O(1).

    Raises:
        ProtocolError: invalid_record for a damaged one.
    """
    try:
        _, at = _varint(records, at)  # its offset in the batch
        length, _ = _varint(records, at)
    except IndexError:
        raise _damaged(batch, number) from None
    return length >= 0


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A signed number of variable length, and the position after it."""
    byte = data[at]
    at += 1
    value, shift = byte & ~_MORE, 7
    while byte >= _MORE:
        if shift > _MAX_BITS:
            raise IndexError
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _damaged(batch: Batch, number: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.invalid_record,
        f"the batch at offset {batch.base_offset} must have {batch.records} records, got a damaged one after {number}",
    )

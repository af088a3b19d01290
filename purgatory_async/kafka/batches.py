"""Record batches, format 2: what a broker reads and writes of one without opening it.

The batch's header is fixed. Its checksum covers what follows it, so the first offset and the leader's epoch, which
stand before, are rewritten in place::

    0 first offset q | 8 length i | 12 leader epoch i | 16 format b | 17 checksum I | 21 attributes h
    23 last offset's delta i | 27 first timestamp q | 35 greatest timestamp q | 43 producer id q
    51 producer epoch h | 53 first sequence i | 57 records i | 61 the records, perhaps compressed
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.errors import AbsentError, ErrorCode, ProtocolError

__all__ = [
    "HEADER_BYTES",
    "NO_TIME",
    "Batch",
    "check_batch",
    "place",
    "read_batches",
    "sole_batch",
    "stamped",
]

_HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = _HEADER.size
_EPOCH: Final = Struct(">i")
_FIRST_OFFSET: Final = Struct(">q")
_EPOCH_AT: Final = 12
_FORMAT_AT: Final = 16
_CHECKSUM: Final = Struct(">I")
_CHECKSUM_AT: Final = 17
_CHECKED_FROM: Final = 21  # the first byte that the checksum covers; the attributes
_ATTRIBUTES: Final = Struct(">h")
_GREATEST_AT: Final = 35  # timestamp
NO_TIME: Final = -1
"""The timestamp of records that have none."""
_FORMAT: Final = 2
_UNCOUNTED: Final = 12  # the length does not count the first offset and itself
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class Batch(NamedTuple):
    """A batch's header, and where the batch stands in its buffer.

    Attributes:
        at: The batch's position in its buffer, in bytes.
        base_offset: The offset of its first record.
        length: Bytes after this field.
        leader_epoch: The epoch of the leader that appended it.
        magic: The format; 2.
        crc: Checksum of what follows it.
        attributes: Codec, kind of timestamps, transactional, control.
        last_offset_delta: Offset of the last record, counted from the first.
        base_timestamp: The timestamp of the first record, in milliseconds.
        max_timestamp: The greatest, in milliseconds; kafkajs leaves out records without one of their own.
        producer_id: The id of an idempotent producer; otherwise -1.
        producer_epoch: The epoch of an idempotent producer; otherwise -1.
        base_sequence: Number of the first record in the producer's sequence; otherwise -1.
        records: How many there are.
    """

    at: int
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
        return self.length + _UNCOUNTED

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """How its records are compressed; 0 if they are not."""
        return self.attributes & _CODEC

    @property
    def has_append_time(self) -> bool:
        """Whether all its records have the greatest timestamp, the broker's own (LogAppendTime)."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def greatest_time(self) -> int:
        """The greatest timestamp, as far as the header shows; see `has_sure_time`."""
        return self.max_timestamp if self.has_append_time else max(self.base_timestamp, self.max_timestamp)

    @property
    def has_sure_time(self) -> bool:
        """Whether every record has ``greatest_time``, whichever client wrote the header."""
        return self.has_append_time or self.records == 1


def read_batches(data: bytes | bytearray | memoryview) -> Iterator[Batch]:
    """Read the headers of the batches in a buffer, one after another. O(batches).

    Raises:
        ProtocolError: corrupt_message for a batch that the buffer does not hold whole,
            unsupported_for_message_format for one of another format.
    """
    at, end = 0, len(data)
    while at < end:
        if end - at > _FORMAT_AT and (magic := data[at + _FORMAT_AT]) != _FORMAT:
            raise ProtocolError(
                ErrorCode.unsupported_for_message_format,
                f"a batch's format must be {_FORMAT}, got {magic}; use a client of Kafka 0.11 or later",
            )
        if end - at < HEADER_BYTES:
            raise _torn(HEADER_BYTES, end - at)
        batch = Batch(at, *_HEADER.unpack_from(data, at))
        if not HEADER_BYTES <= batch.size_bytes <= end - at:
            raise _torn(batch.size_bytes, end - at)
        yield batch
        at += batch.size_bytes


def check_batch(batch: Batch, data: bytes | bytearray | memoryview) -> None:
    """Check a producer's batch: its checksum, its count, no transaction. O(bytes).

    Raises:
        ProtocolError: corrupt_message if the checksum differs, invalid_record for a count of records that the
            offsets contradict or for a batch of a transaction.
    """
    with memoryview(data) as view, view[batch.at + _CHECKED_FROM : batch.at + batch.size_bytes] as covered:
        computed = crc32c(covered)
    if computed != batch.crc:
        raise ProtocolError(
            ErrorCode.corrupt_message, f"a batch's checksum must be {computed:#010x}, got {batch.crc:#010x}"
        )
    if batch.records < 1 or batch.last_offset_delta != batch.records - 1:
        raise ProtocolError(
            ErrorCode.invalid_record,
            f"a batch of {batch.records} records must end at offset delta {max(batch.records, 1) - 1}, "
            f"got {batch.last_offset_delta}",
        )
    if batch.attributes & (_TRANSACTIONAL | _CONTROL):
        raise AbsentError(
            ErrorCode.invalid_record,
            Absence.TRANSACTIONS,
            f"a batch must not belong to a transaction, got attributes {batch.attributes:#06x}",
        )


def sole_batch(data: bytes | bytearray | memoryview, max_bytes: int) -> Batch:
    """Check that a producer sent one batch, of at most so many bytes, and return its header. O(bytes).

    Raises:
        ProtocolError: invalid_record for another number of batches, message_too_large, or as `check_batch`.
    """
    batches = list(read_batches(data))
    if len(batches) != 1:
        raise ProtocolError(
            ErrorCode.invalid_record, f"a produce must have one batch for a partition, got {len(batches)}"
        )
    (batch,) = batches
    if batch.size_bytes > max_bytes:
        raise ProtocolError(
            ErrorCode.message_too_large,
            f"a batch must be at most {max_bytes} bytes, got {batch.size_bytes}",
        )
    check_batch(batch, data)
    return batch


def place(data: bytearray, at: int, base_offset: int, leader_epoch: int) -> None:
    """Write the first offset and the leader epoch into the batch at a position. O(1)."""
    _FIRST_OFFSET.pack_into(data, at, base_offset)
    _EPOCH.pack_into(data, at + _EPOCH_AT, leader_epoch)


def stamped(data: bytes | bytearray | memoryview, batch: Batch, now_ms: int) -> tuple[bytearray, Batch]:
    """Copy the only batch of a buffer, with the broker's time for all its records. O(bytes)."""
    copy = bytearray(data)
    _ATTRIBUTES.pack_into(copy, _CHECKED_FROM, batch.attributes | _APPEND_TIME)
    _FIRST_OFFSET.pack_into(copy, _GREATEST_AT, now_ms)
    _CHECKSUM.pack_into(copy, _CHECKSUM_AT, crc32c(memoryview(copy)[_CHECKED_FROM:]))
    return copy, next(read_batches(copy))


def _torn(needed: int, left: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.corrupt_message, f"a batch of {needed} bytes must be whole, got {left} bytes"
    )

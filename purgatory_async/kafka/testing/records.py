"""Records into a batch and out of batches; the broker itself only reads a batch's header."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c
from kio.serial.readers import read_signed_varint, read_signed_varlong
from kio.serial.writers import write_signed_varint

from purgatory_async.kafka.batches import HEADER_BYTES, Batch, read_batches
from purgatory_async.kafka.codecs import decompress

__all__ = ["Headers", "Record", "read_records", "write_batch"]

Headers = Sequence[tuple[str, bytes | None]]

_UNCHECKED: Final = Struct(">qiibI")  # first offset, length, leader epoch, format, checksum
_CHECKED: Final = Struct(">hiqqqhii")  # attributes to the number of records, as `batches` has them
_UNCOUNTED: Final = 12
_FORMAT: Final = 2
_NONE: Final = -1
_NO_DELTA_AND_ATTRIBUTES: Final = b"\0\0"


@dataclass(frozen=True, slots=True)
class Record:
    """A record that a partition has.

    Attributes:
        partition: The partition's number.
        offset: Its place in the partition.
        timestamp_ms: In milliseconds since 1970, as its producer gave it, or the broker (LogAppendTime).
        key: None for a record without one.
        value: None for a tombstone.
        headers: Names and values, in order.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def write_batch(
    values: Sequence[bytes | None], *, key: bytes | None, headers: Headers, timestamp_ms: int
) -> bytes:
    """Write an uncompressed batch of records that differ only in their values. O(bytes)."""
    records = b"".join(_written(delta, key, value, headers) for delta, value in enumerate(values))
    checked = _CHECKED.pack(
        *(0, len(values) - 1, timestamp_ms, timestamp_ms),
        *(_NONE, _NONE, _NONE, len(values)),  # no idempotent producer
    )
    length = _UNCHECKED.size + len(checked) + len(records) - _UNCOUNTED
    head = _UNCHECKED.pack(0, length, _NONE, _FORMAT, crc32c(checked + records))
    return head + checked + records


def read_records(partition: int, data: bytes) -> Iterator[Record]:
    """Read the records of whole batches, one batch after another. O(bytes).

    Raises:
        ProtocolError: As `decompress`.
    """
    for batch in read_batches(data):
        packed = data[batch.at + HEADER_BYTES : batch.at + batch.size_bytes]
        yield from _read(partition, batch, bytes(decompress(batch.codec, packed)))


def _written(delta: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    body = io.BytesIO()
    body.write(_NO_DELTA_AND_ATTRIBUTES)  # all have the batch's timestamp
    write_signed_varint(body, delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_signed_varint(body, len(headers))
    for name, content in headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, content)
    framed = io.BytesIO()
    _write_bytes(framed, body.getvalue())
    return framed.getvalue()


def _write_bytes(buffer: io.BytesIO, value: bytes | None) -> None:
    write_signed_varint(buffer, _NONE if value is None else len(value))
    buffer.write(value or b"")


def _read(partition: int, batch: Batch, data: bytes) -> Iterator[Record]:
    reader = _Reader(data)
    for _ in range(batch.records):
        reader.varint()  # its length
        reader.at += 1  # attributes, of which there are none
        timestamp_ms = batch.base_timestamp + reader.varlong()
        if batch.has_append_time:
            timestamp_ms = batch.max_timestamp
        offset = batch.base_offset + reader.varint()
        key, value = reader.bytes_or_none(), reader.bytes_or_none()
        headers = tuple(
            ((reader.bytes_or_none() or b"").decode(), reader.bytes_or_none()) for _ in range(reader.varint())
        )
        yield Record(partition, offset, timestamp_ms, key, value, headers)


class _Reader:
    """A place in a buffer that moves on with each value read."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data

    def varint(self) -> int:
        """A number of up to 32 bits."""
        value, size = read_signed_varint(self._data, self.at)
        self.at += size
        return value

    def varlong(self) -> int:
        """A number of up to 64 bits."""
        value, size = read_signed_varlong(self._data, self.at)
        self.at += size
        return value

    def bytes_or_none(self) -> bytes | None:
        """Bytes after their length."""
        length = self.varint()
        if length == _NONE:
            return None
        self.at += length
        return self._data[self.at - length : self.at]

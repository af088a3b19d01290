"""Record batches as a producer makes them, and what a consumer reads; both by kio."""

import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import repeat
from struct import pack, pack_into

import cramjam
from crc32c import crc32c
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch

from purgatory_async.kafka.batches import HEADER_BYTES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch(
    *values: bytes,
    producer: tuple[int, int, int] = (-1, -1, -1),
    at_ms: int | Sequence[int] = 1_000,
    attributes: int = 0,
    keys: Sequence[bytes | None] | None = None,
) -> bytes:
    """A batch of records, all at one time or each at its own, without keys or each with its own.

    ``producer`` is its id, its epoch and the first sequence number.
    """
    buffer = io.BytesIO()
    producer_id, producer_epoch, base_sequence = producer
    values = values or (b"v",)
    times = repeat(at_ms, len(values)) if isinstance(at_ms, int) else at_ms
    records = tuple(
        Record(
            attributes=0,
            timestamp=EPOCH + timedelta(milliseconds=time),
            offset=offset,
            key=key,
            value=value,
            headers=(),
        )
        for offset, (value, time, key) in enumerate(
            zip(values, times, keys or [None] * len(values), strict=True)
        )
    )
    write_batch(
        buffer,
        NewRecordBatch(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records=records,
            attributes=attributes,
        ),
    )
    return buffer.getvalue()


def in_blocks(data: bytes) -> bytes:
    """As Java's snappy writes it."""
    parts = [bytes(cramjam.snappy.compress_raw(data[at : at + 100])) for at in range(0, len(data), 100)]
    return b"\x82SNAPPY\0" + pack(">ii", 1, 1) + b"".join(pack(">i", len(part)) + part for part in parts)


COMPRESSED: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, lambda data: data),
    "gzip": (1, gzip.compress),
    "snappy": (2, cramjam.snappy.compress_raw),
    "snappy in blocks": (2, in_blocks),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, cramjam.zstd.compress),
}
"""The number of each codec, and how it compresses."""


def compressed(plain: bytes, codec: int, compress: Callable[[bytes], bytes]) -> bytes:
    """A batch with its records compressed."""
    made = bytearray(plain[:HEADER_BYTES] + bytes(compress(plain[HEADER_BYTES:])))
    pack_into(">i", made, 8, len(made) - 12)
    made[22] |= codec
    return checked(made)


def checked(made: bytearray) -> bytes:
    """A batch that was changed, with the checksum it must have then."""
    pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


@dataclass(frozen=True)
class Read:
    """One record as a consumer sees it."""

    offset: int
    value: bytes | None
    epoch: int


def records_in(data: bytes) -> list[Read]:
    """The records of whole batches, one after another."""
    found, at = [], 0
    while at < len(data):
        read, size = read_batch(data, at)
        found += [Read(record.offset, record.value, read.partition_leader_epoch) for record in read.records]
        at += size
    return found

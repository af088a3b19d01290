"""Record batches as a producer makes them, and what a consumer reads; both by kio."""

import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch(
    *values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), at_ms: int = 1_000, attributes: int = 0
) -> bytes:
    """A batch of records; ``producer`` is its id, its epoch and the first sequence number."""
    buffer = io.BytesIO()
    producer_id, producer_epoch, base_sequence = producer
    records = tuple(
        Record(
            attributes=0,
            timestamp=EPOCH + timedelta(milliseconds=at_ms),
            offset=offset,
            key=None,
            value=value,
            headers=(),
        )
        for offset, value in enumerate(values or (b"v",))
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

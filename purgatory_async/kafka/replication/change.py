"""What a broker publishes to the others: a record of the internal topic, in JSON."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

__all__ = ["Change", "InSync", "PublishedTopic", "read_changes"]

_NO_TIME: Final = TZAwareMicros.parse(datetime(1970, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class PublishedTopic:
    """A topic as it is now: its name, its id, the brokers of each partition, the leader first, and its configs."""

    name: str
    id: str
    placement: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InSync:
    """The brokers in sync for a partition, which the publisher leads."""

    topic_id: str
    index: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What has changed.

    Attributes:
        everything: Whether all that was published before is void.
        topics: Topics that are new, or have changed; only the controller publishes them.
        deleted: Ids of deleted topics; only the controller publishes them.
        in_sync: Sets that have changed.
    """

    everything: bool = False
    topics: tuple[PublishedTopic, ...] = ()
    deleted: tuple[str, ...] = ()
    in_sync: tuple[InSync, ...] = ()

    def encode(self) -> bytes:
        """Return a batch of one record."""
        value = json.dumps(asdict(self), separators=(",", ":")).encode()
        record = Record(
            attributes=i8(0), timestamp=_NO_TIME, offset=i64(0), key=None, value=value, headers=()
        )
        batch = NewRecordBatch(
            producer_id=i64(-1),
            producer_epoch=i16(-1),
            base_sequence=i32(-1),
            records=(record,),
            attributes=i16(0),
        )
        buffer = io.BytesIO()
        write_batch(buffer, batch)
        return buffer.getvalue()


def read_changes(batches: bytes | memoryview) -> Iterator[Change]:
    """Read what a broker published, in order. O(bytes)."""
    at = 0
    while at < len(batches):
        batch, size = read_batch(batches, at)
        at += size
        for record in batch.records:
            yield _change(json.loads(record.value or b"{}"))


def _change(fields: dict[str, Any]) -> Change:
    return Change(
        everything=bool(fields["everything"]),
        topics=tuple(
            PublishedTopic(one["name"], one["id"], tuple(map(tuple, one["placement"])), one["configs"])
            for one in fields["topics"]
        ),
        deleted=tuple(fields["deleted"]),
        in_sync=tuple(
            InSync(one["topic_id"], one["index"], tuple(one["replicas"])) for one in fields["in_sync"]
        ),
    )

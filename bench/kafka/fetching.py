"""Fetches of one partition, as a consumer's."""

from struct import unpack_from
from typing import Any, Final

from bench.kafka.callers import Caller

__all__ = ["FETCH", "fetched", "first_batch"]

FETCH: Final = 1, 11
"""The api, and a version that every broker here has."""
_MOST_BYTES: Final = 1 << 20
_LENGTH_AT: Final = 8  # in a batch: the length of what follows it
_LENGTH_BYTES: Final = 4


def fetched(topic: str, offset: int, *, max_wait_ms: int) -> dict[str, Any]:
    """The fields of a fetch from partition 0."""
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": _MOST_BYTES,
    }
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": _MOST_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


async def first_batch(asking: Caller, topic: str) -> bytes:
    """Read the batch at offset 0, as a client has made it."""
    answer = await asking.read(*FETCH, **fetched(topic, 0, max_wait_ms=0))
    records = bytes(answer.responses[0].partitions[0].records)
    (length,) = unpack_from(">i", records, _LENGTH_AT)
    return records[: _LENGTH_AT + _LENGTH_BYTES + length]

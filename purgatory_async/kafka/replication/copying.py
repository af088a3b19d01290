"""What a replica asks of another broker: the records after the end of its own copies."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from purgatory_async.kafka.arrays import MAX_ENTRIES
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.replication.peer import Other

__all__ = ["MAX_ASKED", "fetch_on"]

MAX_ASKED: Final = MAX_ENTRIES // 2  # partitions of one fetch, for each may have a topic of its own

_FETCH: Final = (1, 12)  # api and version
_MAX_BYTES: Final = 10 << 20
_MAX_PARTITION_BYTES: Final = 1 << 20


async def fetch_on(
    node: Node, other: Other, partitions: Iterable[Partition], *, max_wait_ms: int
) -> list[tuple[Partition, Any]]:
    """Fetch once from the end of each copy, which acknowledges all before it. O(partitions + bytes).

    Args:
        node: The replica.
        other: Whom it asks.
        partitions: The partitions to ask for, at most `MAX_ASKED`.
        max_wait_ms: How long the other may hold the fetch until there is something.

    Returns:
        Each partition with its part of the response.

    Raises:
        OSError, EOFError: As `Peer.ask`.
    """
    asked = {(one.topic, one.index): one for one in partitions}
    response = await other.ask(
        *_FETCH,
        replica_id=node.id,
        max_wait=max_wait_ms,
        min_bytes=1,
        max_bytes=_MAX_BYTES,
        isolation_level=0,
        topics=[
            {"topic": topic, "partitions": [_from_end(one) for one in of_topic]}
            for topic, of_topic in groupby(asked.values(), key=lambda one: one.topic)
        ],
        forgotten_topics_data=(),
    )
    return [
        (asked[topic.topic, part.partition_index], part)
        for topic in response.responses
        for part in topic.partitions
    ]


def _from_end(partition: Partition) -> dict[str, int]:
    return {
        "partition": partition.index,
        "fetch_offset": partition.log.end,
        "last_fetched_epoch": partition.leader_epoch,
        "log_start_offset": partition.log.start,
        "partition_max_bytes": _MAX_PARTITION_BYTES,
    }

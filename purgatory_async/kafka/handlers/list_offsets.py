"""ListOffsets: the first, the last, or the offset at a time."""

from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import Partition

__all__ = ["LIST_OFFSETS"]

_LATEST: Final = -1
_EARLIEST: Final = -2
_NEWEST: Final = -3  # the record with the greatest timestamp
_NONE: Final = (-1, -1)


def _list_offsets(node: Node, request: Any, _: Client) -> Answer:
    """Find offsets; batches stay closed, so for a time it is that of the first record of the batch."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _find(node, topic.name, part, request.replica_id) for part in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _find(node: Node, topic: str, part: Any, replica: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"partition_index": part.partition_index, "error_code": ErrorCode.none}
    try:
        partition = node.readable(topic, part.partition_index, replica)
    except ProtocolError as error:
        return {**answer, "error_code": error.code}
    offset, timestamp = _offset_at(partition, part.timestamp)
    return {**answer, "offset": offset, "timestamp": timestamp, "leader_epoch": partition.leader_epoch}


def _offset_at(partition: Partition, timestamp: int) -> tuple[int, int]:
    """An offset, and the timestamp found there or -1."""
    if timestamp == _LATEST:
        return partition.high_watermark, -1
    if timestamp == _EARLIEST:
        return partition.log.start, -1
    found = partition.log.newest() if timestamp == _NEWEST else partition.log.offset_at(timestamp)
    return _NONE if found is None or found[0] >= partition.high_watermark else found


LIST_OFFSETS: Final = Api(2, 1, 7, _list_offsets)

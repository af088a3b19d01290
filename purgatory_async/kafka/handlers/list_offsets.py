"""ListOffsets: the first offset, the last one, or a record's by its timestamp."""

import asyncio
import logging
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.finder import Found
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import NO_EPOCH, Partition

__all__ = ["LIST_OFFSETS"]

_LOG: Final = logging.getLogger(__name__)
_LATEST: Final = -1
_EARLIEST: Final = -2
_NEWEST: Final = -3  # the record with the greatest timestamp
_EARLIEST_HERE: Final = -4  # not in remote storage, which this broker lacks
_LATEST_ELSEWHERE: Final = -5  # the last one there
_NO_TIME: Final = -1
_NONE: Final = Found(-1, _NO_TIME, NO_EPOCH)


async def _list_offsets(node: Node, request: Any, _: Client) -> Answer:
    """Find offsets, one a turn of the loop: for a time, a batch may have to be opened."""
    topics: list[dict[str, Any]] = []
    for topic in request.topics:
        partitions: list[dict[str, Any]] = []
        for part in topic.partitions:
            partitions.append(await _listed(node, topic.name, part, request.replica_id))
            await asyncio.sleep(0)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


async def _listed(node: Node, topic: str, part: Any, replica: int) -> dict[str, Any]:
    answer = {"partition_index": part.partition_index, "error_code": ErrorCode.none}
    try:
        partition = node.readable(topic, part.partition_index, replica)
        offset, timestamp, epoch = await _find(node, partition, part.timestamp)
    except ProtocolError as error:
        return {**answer, "error_code": error.code}
    return {**answer, "offset": offset, "timestamp": timestamp, "leader_epoch": epoch}


async def _find(node: Node, partition: Partition, timestamp: int) -> Found:
    log = partition.log
    if timestamp == _LATEST_ELSEWHERE:
        return _NONE
    if timestamp in {_LATEST, _EARLIEST, _EARLIEST_HERE}:
        offset = partition.high_watermark if timestamp == _LATEST else log.start
        return Found(offset, _NO_TIME, partition.leader_epoch)
    if timestamp < _LATEST_ELSEWHERE:
        raise ProtocolError(
            ErrorCode.unsupported_version, f"timestamp must be at least {_LATEST_ELSEWHERE}, got {timestamp}"
        )
    try:
        found = await (
            node.finder.newest(log) if timestamp == _NEWEST else node.finder.first_at(log, timestamp)
        )
    except ProtocolError as error:
        _LOG.warning("%r finds no record at %d: %s", partition, timestamp, error)
        raise
    partition.check_offset(log.start)  # its topic may be deleted meanwhile
    return _NONE if found is None or found.offset >= partition.high_watermark else found


LIST_OFFSETS: Final = Api(2, 1, 10, _list_offsets)

"""OffsetCommit and OffsetFetch."""

from collections.abc import Iterable
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.offsets import NO_OFFSET, CommittedOffset, TopicPartition
from purgatory_async.kafka.node import Node

__all__ = ["OFFSET_COMMIT", "OFFSET_FETCH"]

_SEVERAL_GROUPS: Final = 8  # version


def _offset_commit(node: Node, request: Any, _: Client) -> Answer:
    """Commit the offsets that can be committed; the others get their own errors."""
    offsets: dict[TopicPartition, CommittedOffset] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for part in topic.partitions:
            place = (topic.name, part.partition_index)
            try:
                node.topics.partition(*place)
                offsets[place] = CommittedOffset(
                    part.committed_offset,
                    getattr(part, "committed_leader_epoch", -1),
                    part.committed_metadata or "",  # null is never fetched back
                )
            except ProtocolError as error:
                refused[place] = error.code
    outcome = _commit(node, request, offsets)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": refused.get((topic.name, part.partition_index), outcome),
                    }
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _commit(node: Node, request: Any, offsets: dict[TopicPartition, CommittedOffset]) -> ErrorCode:
    try:
        node.coordinator_of(request.group_id).commit(
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            offsets,
            instance_id=getattr(request, "group_instance_id", None),
        )
    except ProtocolError as error:
        return error.code
    return ErrorCode.none


def _offset_fetch(node: Node, request: Any, _: Client) -> Answer:
    """Return committed offsets, of all partitions where none are named; from version 8 of several groups."""
    if request.__version__ < _SEVERAL_GROUPS:
        return _fetched(node, request)
    whole = {wanted.group_id: wanted for wanted in request.groups if wanted.topics is None}
    parts = [wanted for wanted in request.groups if wanted.topics is not None]
    return {
        "groups": [{"group_id": each.group_id, **_fetched(node, each)} for each in (*whole.values(), *parts)],
    }


def _fetched(node: Node, wanted: Any) -> dict[str, Any]:
    places: list[TopicPartition] | None = None
    if wanted.topics is not None:
        places = [(topic.name, index) for topic in wanted.topics for index in topic.partition_indexes]
    try:
        committed = node.coordinator_of(wanted.group_id).committed(wanted.group_id, places)
        code = ErrorCode.none
    except ProtocolError as error:
        committed = dict.fromkeys(places or (), NO_OFFSET)
        code = error.code
    return {"error_code": code, "topics": _by_topic(committed.items(), code)}


def _by_topic(
    committed: Iterable[tuple[TopicPartition, CommittedOffset]], code: ErrorCode
) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), offset in committed:
        topics.setdefault(topic, []).append(
            {
                "partition_index": index,
                "committed_offset": offset.offset,
                "committed_leader_epoch": offset.leader_epoch,
                "metadata": offset.metadata,
                "error_code": code,
            }
        )
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


OFFSET_COMMIT: Final = Api(8, 2, 8, _offset_commit)
OFFSET_FETCH: Final = Api(9, 1, 8, _offset_fetch)

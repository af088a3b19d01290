"""DeleteGroups and OffsetDelete: what is forgotten of groups."""

from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.groups.offsets import TopicPartition
from purgatory_async.kafka.node import Node

__all__ = ["DELETE_GROUPS", "OFFSET_DELETE"]


def _delete_groups(node: Node, request: Any, _: Client) -> Answer:
    """Delete groups without members, each once."""
    return {
        "results": [
            {"group_id": group_id, "error_code": _deleted(node, group_id)}
            for group_id in dict.fromkeys(request.groups_names)
        ]
    }


def _deleted(node: Node, group_id: str) -> ErrorCode:
    try:
        node.coordinator_of(group_id).delete(group_id)
    except ProtocolError as error:
        return error.code
    return ErrorCode.none


def _offset_delete(node: Node, request: Any, _: Client) -> Answer:
    """Delete committed offsets, but for the topics that members are subscribed to."""
    places = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    try:
        kept = node.coordinator_of(request.group_id).forget(request.group_id, places)
    except ProtocolError as error:
        return {"error_code": error.code, "topics": ()}
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": _forgotten(node, (topic.name, part.partition_index), kept),
                    }
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _forgotten(node: Node, place: TopicPartition, kept: frozenset[TopicPartition]) -> ErrorCode:
    if place in kept:
        return ErrorCode.group_subscribed_to_topic
    try:
        node.topics.partition(*place)
    except ProtocolError as error:
        return error.code
    return ErrorCode.none


DELETE_GROUPS: Final = Api(42, 0, 2, _delete_groups)
OFFSET_DELETE: Final = Api(47, 0, 0, _offset_delete)

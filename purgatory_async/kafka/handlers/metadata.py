"""Metadata, DescribeTopicPartitions and DescribeCluster: brokers, topics, and who leads what."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.handlers.allowance import Allowance
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import NO_EPOCH, Partition
from purgatory_async.kafka.topics import Topic

__all__ = ["DESCRIBE_CLUSTER", "DESCRIBE_TOPIC_PARTITIONS", "METADATA"]

_NO_BROKER: Final = -1
_MOST_PARTITIONS: Final = 2000  # of one page, as Kafka's max.request.partition.size.limit


def _metadata(node: Node, request: Any, _: Client) -> Answer:
    """Describe the cluster and topics; a topic asked for by name may be created."""
    return {
        "brokers": _brokers(node, "node_id"),
        "cluster_id": node.cluster_id,
        "controller_id": _controller(node),
        "topics": _topics(node, request),
    }


def _topics(node: Node, request: Any) -> list[dict[str, Any]]:
    # Version 0 asks for all topics with an empty list, later ones with null.
    if request.topics is None or (not request.topics and request.__version__ == 0):
        return [_described(node, topic, topic.partitions) for topic in node.topics if not topic.internal]
    create = getattr(request, "allow_auto_topic_creation", True)
    allowance = Allowance()
    # Each once, as Kafka does: a short request could describe the largest topic thousands of times.
    unique = {(wanted.name, getattr(wanted, "topic_id", None)): wanted for wanted in request.topics}
    return [_found(node, wanted, allowance, create=create) for wanted in unique.values()]


def _found(node: Node, wanted: Any, allowance: Allowance, *, create: bool) -> dict[str, Any]:
    topic_id = getattr(wanted, "topic_id", None)
    try:
        if topic_id is not None or wanted.name is None:  # beside an id, clients send "" or null
            topic = node.topics.find_id(topic_id)
        else:
            if create and wanted.name not in node.topics:
                # A code after which clients ask again.
                allowance.use(node.settings.partitions, ErrorCode.leader_not_available)
            topic = node.topic_for(wanted.name) if create else node.topics.find(wanted.name)
        return _described(node, topic, topic.partitions)
    except ProtocolError as error:
        return _undescribed(error.code, wanted.name if topic_id is None else None, topic_id)


def _undescribed(code: ErrorCode, name: str | None, topic_id: UUID | None = None) -> dict[str, Any]:
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": ()}


def _described(node: Node, topic: Topic, partitions: Sequence[Partition]) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [_partition(node, topic, partition) for partition in partitions],
    }


def _partition(node: Node, topic: Topic, partition: Partition) -> dict[str, Any]:
    """Describe a partition; without its leader it is not available, since no other takes over."""
    available = partition.leader in node.cluster.reachable
    return {
        "error_code": ErrorCode.none if available else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader if available else _NO_BROKER,
        "leader_epoch": partition.leader_epoch if partition.leader == node.id else NO_EPOCH,
        "replica_nodes": partition.replicas,
        "isr_nodes": node.cluster.in_sync(topic, partition),
        "eligible_leader_replicas": (),  # Java's client reads no null here
        "last_known_elr": (),
        "offline_replicas": [
            replica for replica in partition.replicas if replica not in node.cluster.reachable
        ],
    }


def _describe_topic_partitions(node: Node, request: Any, _: Client) -> Answer:
    """Describe topics in the order of their names: one page, and where the next one begins."""
    names = {wanted.name for wanted in request.topics} or {
        topic.name for topic in node.topics if not topic.internal
    }
    left = max(1, min(request.response_partition_limit, _MOST_PARTITIONS))
    begin = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    if begin[1] < 0:
        return {"topics": [_undescribed(ErrorCode.invalid_request, name) for name in sorted(names)]}
    described: list[dict[str, Any]] = []
    for name in sorted(name for name in names if name >= begin[0]):
        first = begin[1] if name == begin[0] else 0
        if not left:
            return _page(described, name, first)
        try:
            topic = node.topics.find(name)
        except ProtocolError as error:
            described.append(_undescribed(error.code, name))
            continue
        partitions = topic.partitions[first : first + left]
        described.append(_described(node, topic, partitions))
        left -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return _page(described, name, first + len(partitions))
    return {"topics": described}


def _page(topics: list[dict[str, Any]], name: str, index: int) -> Answer:
    return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": index}}


def _brokers(node: Node, id_field: str) -> list[dict[str, Any]]:
    return [
        {id_field: number, "host": host, "port": port}
        for number, (host, port) in node.addresses.items()
        if number in node.cluster.reachable
    ]


def _controller(node: Node) -> int:
    controller = node.cluster.controller
    return controller if controller in node.cluster.reachable else _NO_BROKER


def _describe_cluster(node: Node, request: Any, _: Client) -> Answer:  # noqa: ARG001 - as every handler
    """Describe the brokers."""
    return {
        "error_code": ErrorCode.none,
        "cluster_id": node.cluster_id,
        "controller_id": _controller(node),
        "brokers": _brokers(node, "broker_id"),
    }


METADATA: Final = Api(3, 0, 12, _metadata)
DESCRIBE_CLUSTER: Final = Api(60, 0, 1, _describe_cluster)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(75, 0, 0, _describe_topic_partitions)

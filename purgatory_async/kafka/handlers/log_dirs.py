"""DescribeLogDirs and AlterReplicaLogDirs: memory is the one directory, with the sizes of all partitions."""

from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import Partition

__all__ = ["ALTER_REPLICA_LOG_DIRS", "DESCRIBE_LOG_DIRS"]

_MEMORY: Final = "/memory"


def _describe_log_dirs(node: Node, request: Any, _: Client) -> Answer:
    """Give the sizes of the partitions that this broker has; others are left out, as by Kafka."""
    wanted = {(topic.topic, index) for topic in request.topics or () for index in topic.partitions}
    sizes = {
        topic.name: [
            _sized(partition)
            for partition in topic.partitions
            if node.id in partition.replicas
            if request.topics is None or (topic.name, partition.index) in wanted
        ]
        for topic in node.topics
        if not topic.internal
    }
    budget = node.topics.budget
    memory = {
        "error_code": ErrorCode.none,
        "log_dir": _MEMORY,
        "topics": [
            {"name": name, "partitions": partitions} for name, partitions in sizes.items() if partitions
        ],
        "total_bytes": budget.max_bytes,
        "usable_bytes": max(0, budget.max_bytes - budget.used_bytes),
    }
    return {"error_code": ErrorCode.none, "results": (memory,)}


def _sized(partition: Partition) -> dict[str, Any]:
    return {
        "partition_index": partition.index,
        "partition_size": partition.log.size_bytes,
        "offset_lag": max(0, partition.high_watermark - partition.log.end),
        "is_future_key": False,
    }


def _alter_replica_log_dirs(node: Node, request: Any, _: Client) -> Answer:
    """Move replicas of this broker to where they are."""
    return {
        "results": [
            {
                "topic_name": topic.name,
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": _moved(node, directory.path, topic.name, index),
                    }
                    for index in topic.partitions
                ],
            }
            for directory in request.dirs
            for topic in directory.topics
        ]
    }


def _moved(node: Node, path: str, topic: str, index: int) -> ErrorCode:
    if path != _MEMORY:
        return ErrorCode.log_dir_not_found
    try:
        partition = node.topics.partition(topic, index)
    except ProtocolError as error:
        return error.code
    return ErrorCode.none if node.id in partition.replicas else ErrorCode.replica_not_available


DESCRIBE_LOG_DIRS: Final = Api(35, 1, 4, _describe_log_dirs)
ALTER_REPLICA_LOG_DIRS: Final = Api(34, 1, 2, _alter_replica_log_dirs)

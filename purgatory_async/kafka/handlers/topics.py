"""CreateTopics and DeleteTopics."""

from collections import Counter
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node

__all__ = ["CREATE_TOPICS", "DELETE_TOPICS"]

_DEFAULT: Final = -1


def _create_topics(node: Node, request: Any, _: Client) -> Answer:
    """Create topics, or only check whether they could be created."""
    times = Counter(wanted.name for wanted in request.topics)
    return {
        "topics": [
            _created(node, wanted, check_only=request.validate_only, twice=times[wanted.name] > 1)
            for wanted in request.topics
        ]
    }


def _created(node: Node, wanted: Any, *, check_only: bool, twice: bool) -> dict[str, Any]:
    answer = {"name": wanted.name, "error_code": ErrorCode.none, "configs": ()}
    try:
        _check(node, wanted, twice=twice)
        partitions = _partitions(node, wanted)
        if check_only:
            node.topics.check_new(wanted.name, partitions)
            return {**answer, "num_partitions": partitions, "replication_factor": 1}
        topic = node.topics.create(wanted.name, partitions)
    except ProtocolError as error:
        return {**answer, "error_code": error.code, "error_message": str(error)}
    return {**answer, "topic_id": topic.id, "num_partitions": len(topic.partitions), "replication_factor": 1}


def _partitions(node: Node, wanted: Any) -> int:
    if wanted.assignments:
        numbers = sorted(assigned.partition_index for assigned in wanted.assignments)
        if numbers != list(range(len(numbers))):
            raise ProtocolError(
                ErrorCode.invalid_replica_assignment,
                f"partitions must be assigned from 0 to {len(numbers) - 1}, got {numbers}",
            )
        return len(numbers)
    return node.settings.partitions if wanted.num_partitions == _DEFAULT else int(wanted.num_partitions)


def _check(node: Node, wanted: Any, *, twice: bool) -> None:
    if twice:
        raise ProtocolError(
            ErrorCode.invalid_request, f"a request must name a topic once, got {wanted.name!r} twice"
        )
    brokers = len(node.addresses)
    for assigned in wanted.assignments:
        if not assigned.broker_ids or not set(assigned.broker_ids) <= set(node.addresses):
            raise ProtocolError(
                ErrorCode.invalid_replica_assignment,
                f"replicas must be of brokers {sorted(node.addresses)}, got {list(assigned.broker_ids)}",
            )
    if not wanted.assignments and wanted.replication_factor not in {_DEFAULT, *range(1, brokers + 1)}:
        raise ProtocolError(
            ErrorCode.invalid_replication_factor,
            f"replication_factor must be 1 to {brokers}, the number of brokers, got {wanted.replication_factor}",
        )


def _delete_topics(node: Node, request: Any, _: Client) -> Answer:
    """Delete topics by name or, from version 6, by id."""
    if hasattr(request, "topic_names"):
        return {"responses": [_deleted(node, name, None) for name in request.topic_names]}
    return {"responses": [_deleted(node, wanted.name, wanted.topic_id) for wanted in request.topics]}


def _deleted(node: Node, name: str | None, topic_id: Any) -> dict[str, Any]:
    try:
        topic = node.topics.find_id(topic_id) if name is None else node.topics.find(name)
    except ProtocolError as error:
        return {"name": name, "topic_id": topic_id, "error_code": error.code, "error_message": str(error)}
    node.delete_topic(topic)
    return {"name": topic.name, "topic_id": topic.id, "error_code": ErrorCode.none}


CREATE_TOPICS: Final = Api(19, 2, 7, _create_topics)
DELETE_TOPICS: Final = Api(20, 1, 6, _delete_topics)

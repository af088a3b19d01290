"""CreateTopics and DeleteTopics."""

from collections import Counter
from collections.abc import Sequence
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
        _check_once(wanted.name, twice=twice)
        node.topics.check_new(wanted.name)
        placement = _placement(node, wanted)
        if not check_only:
            answer["topic_id"] = node.topics.create(wanted.name, placement).id
    except ProtocolError as error:
        return {**answer, "error_code": error.code, "error_message": str(error)}
    return {**answer, "num_partitions": len(placement), "replication_factor": len(placement[0])}


def _check_once(name: str, *, twice: bool) -> None:
    if twice:
        raise ProtocolError(
            ErrorCode.invalid_request, f"a request must name a topic once, got {name!r} twice"
        )


def _placement(node: Node, wanted: Any) -> list[tuple[int, ...]]:
    """The brokers of each partition."""
    brokers = node.topics.brokers
    if wanted.assignments:
        return _assigned(wanted.assignments, brokers)
    replication = None if wanted.replication_factor == _DEFAULT else wanted.replication_factor
    if replication is not None and not 1 <= replication <= len(brokers):
        raise ProtocolError(
            ErrorCode.invalid_replication_factor,
            f"replication_factor must be 1 to {len(brokers)}, the number of brokers, got {replication}",
        )
    return node.topics.placed(
        None if wanted.num_partitions == _DEFAULT else wanted.num_partitions, replication
    )


def _assigned(assignments: Any, brokers: Sequence[int]) -> list[tuple[int, ...]]:
    placement = {assigned.partition_index: tuple(assigned.broker_ids) for assigned in assignments}
    if sorted(placement) != list(range(len(assignments))):
        raise ProtocolError(
            ErrorCode.invalid_replica_assignment,
            f"partitions must be assigned from 0 to {len(assignments) - 1}, got {sorted(placement)}",
        )
    for replicas in placement.values():
        if not replicas or len({*replicas}) < len(replicas) or not {*replicas} <= {*brokers}:
            raise ProtocolError(
                ErrorCode.invalid_replica_assignment,
                f"replicas must be different ones of {list(brokers)}, got {list(replicas)}",
            )
    return [placement[index] for index in range(len(placement))]


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

"""CreateTopics and DeleteTopics."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.delayed_produce import DelayedProduce, PartitionStatus
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.handlers.allowance import Allowance
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.topics import Topic

__all__ = ["CREATE_TOPICS", "DELETE_TOPICS"]

_DEFAULT: Final = -1


def _create_topics(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
    """Create topics, or only check whether they could be created."""
    times = Counter(wanted.name for wanted in request.topics)
    allowance = Allowance()
    results = [
        _created(node, wanted, allowance, check_only=request.validate_only, twice=times[wanted.name] > 1)
        for wanted in request.topics
    ]
    return {"topics": results} if request.validate_only else _once_told(node, request, "topics", results)


def _once_told(
    node: Node, request: Any, name: str, results: list[dict[str, Any]]
) -> Answer | Awaitable[Answer]:
    """Answer with the results once the other brokers in sync know of what was done."""
    done = any(result["error_code"] is ErrorCode.none for result in results)
    status = node.told_others() if done else None
    return {name: results} if status is None else _told(node, request, name, results, status)


async def _told(
    node: Node, request: Any, name: str, results: list[dict[str, Any]], status: PartitionStatus
) -> Answer:
    operation = DelayedProduce([status], request.timeout.total_seconds())
    await node.produce.run(operation, [status.partition])
    if status.error is not ErrorCode.none:
        late = {"error_code": status.error, "error_message": "done, but not all brokers know of it in time"}
        results = [
            {**result, **late} if result["error_code"] is ErrorCode.none else result for result in results
        ]
    return {name: results}


def _created(
    node: Node, wanted: Any, allowance: Allowance, *, check_only: bool, twice: bool
) -> dict[str, Any]:
    answer = {"name": wanted.name, "error_code": ErrorCode.none, "configs": ()}
    try:
        _check_once(wanted.name, twice=twice)
        node.topics.check_new(wanted.name)
        allowance.use(_number(node, wanted), ErrorCode.policy_violation)
        placement = _placement(node, wanted)
        allowance.claim(wanted.name)
        if not check_only:
            answer["topic_id"] = node.create_topic(wanted.name, placement).id
    except ProtocolError as error:
        return {**answer, "error_code": error.code, "error_message": str(error)}
    return {**answer, "num_partitions": len(placement), "replication_factor": len(placement[0])}


def _check_once(name: str, *, twice: bool) -> None:
    if twice:
        raise ProtocolError(
            ErrorCode.invalid_request, f"a request must name a topic once, got {name!r} twice"
        )


def _number(node: Node, wanted: Any) -> int:
    """How many partitions are wanted."""
    if wanted.assignments:
        return len(wanted.assignments)
    number: int = wanted.num_partitions
    return node.settings.partitions if number == _DEFAULT else number


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


async def _delete_topics(node: Node, request: Any, _: Client) -> Answer:
    """Delete topics by name or, from version 6, by id; one a turn of the loop, for each looks at all offsets."""
    wanted: list[tuple[str | None, Any]]
    if hasattr(request, "topic_names"):
        wanted = [(name, None) for name in request.topic_names]
    else:
        wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    results: list[dict[str, Any]] = []
    for name, topic_id in wanted:
        if results:
            await asyncio.sleep(0)
        results.append(_deleted(node, name, topic_id))
    answer = _once_told(node, request, "responses", results)
    return await answer if isinstance(answer, Awaitable) else answer


def _deleted(node: Node, name: str | None, topic_id: Any) -> dict[str, Any]:
    try:
        topic = _named(node, name, topic_id)
        node.delete_topic(topic)
    except ProtocolError as error:
        return {
            "name": name or None,
            "topic_id": topic_id,
            "error_code": error.code,
            "error_message": str(error),
        }
    return {"name": topic.name, "topic_id": topic.id, "error_code": ErrorCode.none}


def _named(node: Node, name: str | None, topic_id: Any) -> Topic:
    if topic_id is None and name is not None:
        return node.topics.find(name)
    if name:  # beside an id, clients send "" or null
        raise ProtocolError(
            ErrorCode.invalid_request, f"a topic must be named by name or by id, got {name!r} and {topic_id}"
        )
    return node.topics.find_id(topic_id)


CREATE_TOPICS: Final = Api(19, 2, 7, _create_topics)
DELETE_TOPICS: Final = Api(20, 1, 6, _delete_topics)

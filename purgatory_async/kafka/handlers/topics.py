"""CreateTopics, CreatePartitions and DeleteTopics."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.configs.described import topic_entries
from purgatory_async.kafka.configs.overrides import checked
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.handlers.allowance import Allowance
from purgatory_async.kafka.handlers.publishing import once_published
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.topics import Topic

__all__ = ["CREATE_PARTITIONS", "CREATE_TOPICS", "DELETE_TOPICS"]

_DEFAULT: Final = -1
_SHOWN: Final = 200  # topics whose configs one answer has; more are to be described
_NOT_SHOWN: Final = {"configs": (), "topic_config_error_code": ErrorCode.policy_violation}


def _create_topics(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
    """Create topics, or only check whether they could be created."""
    results = _results(node, request, _created)
    for result in results[_SHOWN:]:
        result.update(_NOT_SHOWN)
    if request.validate_only:
        return {"topics": results}
    return once_published(node, request.timeout.total_seconds(), "topics", results)


def _results(node: Node, request: Any, change: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
    """Create or enlarge each topic of a request, or only check whether that could be."""
    times = Counter(wanted.name for wanted in request.topics)
    allowance = Allowance()
    return [
        change(node, wanted, allowance, check_only=request.validate_only, twice=times[wanted.name] > 1)
        for wanted in request.topics
    ]


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
        configs = checked((each.name, each.value) for each in wanted.configs)
        if not check_only:
            answer["topic_id"] = node.controller.create(wanted.name, placement, configs).id
    except ProtocolError as error:
        return {**answer, "error_code": error.code, "error_message": str(error)}
    return {
        **answer,
        "num_partitions": len(placement),
        "replication_factor": len(placement[0]),
        "configs": topic_entries(node.settings, configs),
    }


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
    answer = once_published(node, request.timeout.total_seconds(), "responses", results)
    return await answer if isinstance(answer, Awaitable) else answer


def _deleted(node: Node, name: str | None, topic_id: Any) -> dict[str, Any]:
    try:
        topic = _named(node, name, topic_id)
        node.controller.delete(topic)
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


def _create_partitions(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
    """Enlarge topics, or only check whether they could be; groups notice by their members' metadata, as in Kafka."""
    results = _results(node, request, _enlarged)
    if request.validate_only:
        return {"results": results}
    return once_published(node, request.timeout.total_seconds(), "results", results)


def _enlarged(
    node: Node, wanted: Any, allowance: Allowance, *, check_only: bool, twice: bool
) -> dict[str, Any]:
    try:
        _check_once(wanted.name, twice=twice)
        topic = node.controller.alterable(wanted.name)
        more = _more(topic, wanted.count)
        allowance.use(more, ErrorCode.policy_violation)
        placement = _added(node, topic, wanted.assignments, more)
        if not check_only:
            node.controller.enlarge(topic, placement)
    except ProtocolError as error:
        return {"name": wanted.name, "error_code": error.code, "error_message": str(error)}
    return {"name": wanted.name, "error_code": ErrorCode.none, "error_message": None}


def _more(topic: Topic, count: int) -> int:
    """How many partitions are new."""
    if count <= len(topic.partitions):
        raise ProtocolError(
            ErrorCode.invalid_partitions,
            f"count must be more than {len(topic.partitions)}, the partitions that {topic.name!r} has, got {count}",
        )
    return count - len(topic.partitions)


def _added(node: Node, topic: Topic, assignments: Any, more: int) -> list[tuple[int, ...]]:
    """The brokers of each new partition: as many as the others have."""
    copies = len(topic.partitions[0].replicas)
    if assignments is None:
        return node.topics.placed(more, copies, after=len(topic.partitions))
    node.topics.check_number(more)
    placement = [tuple(each.broker_ids) for each in assignments]
    if [len(replicas) for replicas in placement] != [copies] * more:
        raise ProtocolError(
            ErrorCode.invalid_replica_assignment,
            f"assignments must be {more}, one for each new partition, of {copies} brokers each, "
            f"got {[list(replicas) for replicas in placement[:10]]}",
        )
    _check_replicas(placement, node.topics.brokers)
    return placement


def _check_once(name: str, *, twice: bool) -> None:
    if twice:
        raise ProtocolError(
            ErrorCode.invalid_request, f"a request must name a topic once, got {name!r} twice"
        )


def _assigned(assignments: Any, brokers: Sequence[int]) -> list[tuple[int, ...]]:
    """The brokers of each partition of a new topic, as a client assigns them."""
    placement = {each.partition_index: tuple(each.broker_ids) for each in assignments}
    if sorted(placement) != list(range(len(assignments))):
        raise ProtocolError(
            ErrorCode.invalid_replica_assignment,
            f"partitions must be assigned from 0 to {len(assignments) - 1}, got {sorted(placement)}",
        )
    _check_replicas(placement.values(), brokers)
    return [placement[index] for index in range(len(placement))]


def _check_replicas(placement: Iterable[Sequence[int]], brokers: Sequence[int]) -> None:
    """Refuse partitions without replicas, or whose replicas are not different brokers of the cluster."""
    for replicas in placement:
        if not replicas or len({*replicas}) < len(replicas) or not {*replicas} <= {*brokers}:
            raise ProtocolError(
                ErrorCode.invalid_replica_assignment,
                f"replicas must be different ones of {list(brokers)}, got {list(replicas)}",
            )


CREATE_PARTITIONS: Final = Api(37, 0, 3, _create_partitions)
CREATE_TOPICS: Final = Api(19, 2, 7, _create_topics)
DELETE_TOPICS: Final = Api(20, 1, 6, _delete_topics)

"""CreatePartitions: more partitions for topics that exist."""

from collections import Counter
from collections.abc import Awaitable
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.handlers.allowance import Allowance
from purgatory_async.kafka.handlers.placement import check_once, check_replicas
from purgatory_async.kafka.handlers.telling import once_told
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.topics import Topic

__all__ = ["CREATE_PARTITIONS"]


def _create_partitions(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
    """Enlarge topics, or only check whether they could be; groups notice by their members' metadata, as in Kafka."""
    times = Counter(wanted.name for wanted in request.topics)
    allowance = Allowance()
    results = [
        _enlarged(node, wanted, allowance, check_only=request.validate_only, twice=times[wanted.name] > 1)
        for wanted in request.topics
    ]
    if request.validate_only:
        return {"results": results}
    return once_told(node, request.timeout.total_seconds(), "results", results)


def _enlarged(
    node: Node, wanted: Any, allowance: Allowance, *, check_only: bool, twice: bool
) -> dict[str, Any]:
    try:
        check_once(wanted.name, twice=twice)
        topic = node.controller.alterable(wanted.name)
        more = _more(topic, wanted.count)
        allowance.use(more, ErrorCode.policy_violation)
        placement = _placement(node, topic, wanted.assignments, more)
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


def _placement(node: Node, topic: Topic, assignments: Any, more: int) -> list[tuple[int, ...]]:
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
    check_replicas(placement, node.topics.brokers)
    return placement


CREATE_PARTITIONS: Final = Api(37, 0, 3, _create_partitions)

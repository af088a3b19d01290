"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments: replicas and leaders stay as they are."""

from collections.abc import Sequence
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.topics import Topic

__all__ = ["ALTER_PARTITION_REASSIGNMENTS", "ELECT_LEADERS", "LIST_PARTITION_REASSIGNMENTS"]

_PREFERRED: Final = 0  # the type of an election


def _elect_leaders(node: Node, request: Any, _: Client) -> Answer:
    """Tell of each partition why no leader is elected; of all partitions, as Kafka does, only of those without one."""
    if request.topic_partitions is None:
        wanted = [(topic.name, _leaderless(node, topic)) for topic in node.topics if not topic.internal]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    election = getattr(request, "election_type", _PREFERRED)
    return {
        "error_code": ErrorCode.none,
        "replica_election_results": [
            {
                "topic": name,
                "partition_result": [_not_elected(node, name, index, election) for index in indices],
            }
            for name, indices in wanted
            if indices
        ],
    }


def _leaderless(node: Node, topic: Topic) -> list[int]:
    return [part.index for part in topic.partitions if part.leader not in node.cluster.reachable]


def _not_elected(node: Node, topic: str, index: int, election: int) -> dict[str, Any]:
    try:
        leader = node.topics.partition(topic, index).leader
    except ProtocolError as error:
        code, message = error.code, str(error)
    else:
        code, message = ErrorCode.election_not_needed, f"broker {leader} leads, and is the preferred one"
        if leader not in node.cluster.reachable:
            code = (
                ErrorCode.preferred_leader_not_available
                if election == _PREFERRED
                else ErrorCode.eligible_leaders_not_available
            )
            message = f"broker {leader} must be within reach to lead: no other takes over"
    return {"partition_id": index, "error_code": code, "error_message": message}


def _alter_reassignments(node: Node, request: Any, _: Client) -> Answer:
    """Take only the replicas that a partition has already."""
    return {
        "error_code": ErrorCode.none,
        "responses": [
            {
                "name": topic.name,
                "partitions": [_altered(node, topic.name, part) for part in topic.partitions],
            }
            for topic in request.topics
        ],
    }


def _altered(node: Node, topic: str, part: Any) -> dict[str, Any]:
    answer = {"partition_index": part.partition_index, "error_code": ErrorCode.none}
    try:
        _check_stays(part.replicas, node.topics.partition(topic, part.partition_index).replicas)
    except ProtocolError as error:
        return {**answer, "error_code": error.code, "error_message": str(error)}
    return answer


def _check_stays(wanted: Sequence[int] | None, replicas: Sequence[int]) -> None:
    if wanted is None:
        raise ProtocolError(
            ErrorCode.no_reassignment_in_progress,
            f"replicas stay {list(replicas)}: there is no reassignment to cancel",
        )
    if list(wanted) != list(replicas):
        raise ProtocolError(
            ErrorCode.invalid_replica_assignment,
            f"replicas must stay {list(replicas)}, for placement never changes; got {list(wanted)}",
        )


def _list_reassignments(node: Node, request: Any, client: Client) -> Answer:  # noqa: ARG001 - as every handler
    """Answer that nothing moves."""
    return {"error_code": ErrorCode.none, "topics": ()}


ELECT_LEADERS: Final = Api(43, 0, 2, _elect_leaders)
ALTER_PARTITION_REASSIGNMENTS: Final = Api(45, 0, 1, _alter_reassignments)
LIST_PARTITION_REASSIGNMENTS: Final = Api(46, 0, 0, _list_reassignments)

"""The brokers that clients choose for partitions."""

from collections.abc import Iterable, Sequence
from typing import Any

from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["assigned", "check_once", "check_replicas"]


def check_once(name: str, *, twice: bool) -> None:
    """Check that a request names a topic once.

    Raises:
        ProtocolError: invalid_request.
    """
    if twice:
        raise ProtocolError(
            ErrorCode.invalid_request, f"a request must name a topic once, got {name!r} twice"
        )


def assigned(assignments: Any, brokers: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the brokers of each partition of a new topic, as a client assigns them. O(replicas).

    Raises:
        ProtocolError: invalid_replica_assignment.
    """
    placement = {each.partition_index: tuple(each.broker_ids) for each in assignments}
    if sorted(placement) != list(range(len(assignments))):
        raise ProtocolError(
            ErrorCode.invalid_replica_assignment,
            f"partitions must be assigned from 0 to {len(assignments) - 1}, got {sorted(placement)}",
        )
    check_replicas(placement.values(), brokers)
    return [placement[index] for index in range(len(placement))]


def check_replicas(placement: Iterable[Sequence[int]], brokers: Sequence[int]) -> None:
    """Check the brokers of partitions. O(replicas).

    Raises:
        ProtocolError: invalid_replica_assignment, unless each has different ones of the cluster's.
    """
    for replicas in placement:
        if not replicas or len({*replicas}) < len(replicas) or not {*replicas} <= {*brokers}:
            raise ProtocolError(
                ErrorCode.invalid_replica_assignment,
                f"replicas must be different ones of {list(brokers)}, got {list(replicas)}",
            )

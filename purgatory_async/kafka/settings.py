"""What a broker can be given: names, defaults and bounds."""

from dataclasses import dataclass, fields
from math import inf

from purgatory_async.clock import MAX_TIMEOUT

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits and defaults of a broker. Sizes are in bytes, times in seconds.

    Attributes:
        partitions: How many partitions a topic has that is created without a number.
        replication: Replicas of such a topic, at most as many as there are brokers.
        auto_create: Create a topic when a client first asks for it, as Kafka does.
        max_bytes: The most bytes of all records; a produce above it is refused with kafka_storage_error until records
            are deleted.
        max_batch_bytes: The most bytes of one batch; a longer one is refused with message_too_large.
        max_frame_bytes: The most bytes of one request; a longer one closes its connection.
        max_receive_bytes: The most bytes of all requests that are being received, or wait behind a held one; beyond it,
            and one request more, reading pauses.
        max_connections: At once; each holds one request at most.
        max_partitions: The most partitions of all topics; a topic above it is refused with policy_violation.
        max_groups: The most groups of consumers; one above it is refused with coordinator_not_available.
        max_members: The most members of one group; one above it is refused with group_max_size_reached.
        max_group_bytes: The most bytes of names, metadata, assignments and offsets of all groups; a commit above it is
            refused with invalid_commit_offset_size, a member with group_max_size_reached.
        min_insync: Replicas in sync that an acks=all produce needs.
        rebalance_delay: How long the first generation of an empty group waits after each newcomer.
        min_session_timeout: The shortest session that a member of a group may have. Kafka's is 6 s; tests want less.
        max_session_timeout: The longest one.
        replica_lag: How far behind, in seconds, a replica is still in sync.
        idle_timeout: After so many seconds without a request a connection is closed; inf for never.
    """

    partitions: int = 1
    replication: int = 1
    auto_create: bool = True
    max_bytes: int = 1 << 30
    max_batch_bytes: int = 1_048_588
    max_frame_bytes: int = 100 << 20
    max_receive_bytes: int = 256 << 20
    max_connections: int = 10_000
    max_partitions: int = 10_000
    max_groups: int = 10_000
    max_members: int = 10_000
    max_group_bytes: int = 256 << 20
    min_insync: int = 1
    rebalance_delay: float = 3.0
    min_session_timeout: float = 0.1
    max_session_timeout: float = 1800.0
    replica_lag: float = 10.0
    idle_timeout: float = 600.0

    def __post_init__(self) -> None:
        """Refuse a value out of bounds."""
        for known in fields(self):
            value = getattr(self, known.name)
            least = 0 if isinstance(known.default, (bool, float)) else 1
            if not value >= least:
                raise ValueError(f"{known.name} must be at least {least}, got {value!r}")
            if isinstance(known.default, float) and MAX_TIMEOUT < value < inf:
                raise ValueError(
                    f"{known.name} must be at most {MAX_TIMEOUT:.0f} seconds (100 years), or inf, got {value!r}"
                )

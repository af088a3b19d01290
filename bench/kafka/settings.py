"""How much of the broker is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["KafkaSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings(Conditions):
    """How much of the broker is measured.

    Args:
        records: Produced and consumed in one sample.
        singles: Records sent one after another, each when the one before is acknowledged.
        held: Fetches that wait at once.
        max_wait_s: The longest that they wait; a broker that does not wake them answers then.
        produces: With acks=all, held at once by a follower that has stopped.
        members: Of one group.
        features: Which checks are made; all if empty.
    """

    records: int
    singles: int
    held: int
    max_wait_s: int
    produces: int
    members: int
    features: tuple[str, ...] = ()

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
        features: Which checks are made; all if empty.
    """

    records: int
    singles: int
    features: tuple[str, ...] = ()

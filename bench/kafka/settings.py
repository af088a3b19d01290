"""How much of the broker is measured."""

from dataclasses import dataclass

from bench.measure.loops import UVLOOP
from bench.measure.section import Conditions, sized

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
        members: How many members a group has.
        features: Which checks are made; all if empty.
    """

    records: int = sized(500_000, 5_000)
    singles: int = sized(5_000, 100)
    held: int = sized(3_000, 30)
    max_wait_s: int = sized(20, 4)
    produces: int = sized(10_000, 100)
    members: int = sized(1_000, 10)
    features: tuple[str, ...] = sized((), ("acks=all",))
    rounds: int = sized(3, 1)
    heavy_rounds: int = 1
    loops: tuple[str, ...] = (UVLOOP,)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return f"{self.records:,} records at once, {self.singles:,} one by one"

    def conventions(self) -> dict[str, str]:
        """How figures are taken."""
        return {"figures": f"medians of {self.rounds} rounds; brokers and clients are processes of their own"}

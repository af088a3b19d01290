"""How much of the core is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions, sized

__all__ = ["CoreSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings(Conditions):
    """How much of the core is measured.

    Args:
        operations: Pending at once in the lines about throughput.
        million: Pending at once in the lines about memory, mass cancel and garbage.
        herd: How many wait for the same event or the same instant.
    """

    operations: int = sized(10_000, 1_000)
    million: int = sized(1_000_000, 9_000)
    herd: int = sized(100_000, 1_000)
    rounds: int = sized(9, 2)
    heavy_rounds: int = sized(3, 1)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return (
            f"N = {self.operations:,} at once, {self.million:,} for memory, cancel and garbage, "
            f"{self.herd:,} for herd"
        )

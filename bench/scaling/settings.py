"""How far the price of an operation is followed."""

from dataclasses import dataclass
from typing import Final

from bench.measure.section import Conditions, sized

__all__ = ["FLAT", "ScalingSettings"]

FLAT: Final = 1.5  # times the smallest size


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings(Conditions):
    """How far the price of an operation is followed.

    Args:
        operations: Timed in each sample, whatever else waits.
        pending: How many others wait.
        keys: How many keys an operation watches.
        watchers: How many watch one key.
        standing: How many others wait where that is not what is varied.
        millions: How many are pending at once in the section of that name.
    """

    operations: int = sized(20_000, 600)
    pending: tuple[int, ...] = sized((1_000, 10_000, 100_000, 1_000_000), (100, 1_000))
    keys: tuple[int, ...] = sized((1, 3, 10, 30, 100), (1, 10))
    watchers: tuple[int, ...] = sized((1, 10, 100, 1_000, 10_000, 100_000), (1, 100))
    standing: int = sized(10_000, 200)
    millions: tuple[int, ...] = sized((1_000_000, 2_000_000, 5_000_000, 10_000_000), (1_000, 2_000))
    rounds: int = sized(5, 1)
    heavy_rounds: int = sized(3, 1)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return (
            f"{self.operations:,} operations timed in each sample, beside up to {self.pending[-1]:,} others"
        )

    def conventions(self) -> dict[str, str]:
        """How the figures are taken, and how to read them."""
        return {
            "samples": (
                f"{self.rounds} of each contestant at every size, in turns; {self.heavy_rounds} in section pending"
            ),
            "figures": "nanoseconds of processor time, medians; x: over the smallest size, median of ratios",
            "flat": f"ours is no more than x{FLAT:g}",
        }

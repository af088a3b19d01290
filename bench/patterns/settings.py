"""How much of the patterns is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions, sized

__all__ = ["PatternSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternSettings(Conditions):
    """How much of the patterns is measured.

    Args:
        waiters: How many wait for a number to reach their value.
        items: How many items change hands in one sample.
        takers: How many are idle on one key, from few to a crowd.
    """

    waiters: int = sized(100_000, 1_000)
    items: int = sized(10_000, 500)
    takers: int = sized(100_000, 1_000)
    rounds: int = sized(9, 2)
    heavy_rounds: int = sized(3, 1)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return (
            f"{self.waiters:,} waiters on a watermark; {self.items:,} items handed off, "
            f"up to {self.takers:,} takers of one key"
        )

"""How much of the pipeline is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions, sized

__all__ = ["PipelineSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings(Conditions):
    """How much of the pipeline is measured.

    Args:
        operations: Made, recorded or simulated.
        master: Where Spark runs.
        steps: Times the steady rate, to find the most that the distributed purgatory takes.
    """

    operations: int = sized(5_000_000, 100_000)
    master: str = "local[2]"
    steps: tuple[float, ...] = sized((1.5, 2.0, 3.0, 4.0, 6.0), (1.5,))
    rounds: int = sized(3, 1)
    heavy_rounds: int = sized(3, 1)
    loops: tuple[str, ...] = ("none",)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return f"{self.operations:,} operations"

    def conventions(self) -> dict[str, str]:
        """How the figures are taken, and how to read them."""
        return {
            "samples": f"{self.heavy_rounds} of each, their median; Spark's start is in none of them",
            "spark": f"{self.master}, its driver and the workers share the cores named above",
            "per loop": "rows while a plain Python loop turns a hundred times; a slower machine changes it less than "
            "rows a second",
        }

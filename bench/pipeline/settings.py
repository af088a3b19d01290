"""How much of the pipeline is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["PipelineSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings(Conditions):
    """How much of the pipeline is measured.

    Args:
        operations: Made, recorded or simulated.
        master: Where Spark runs.
        steps: Times the steady rate, to find the most that the distributed purgatory takes.
    """

    operations: int
    master: str
    steps: tuple[float, ...]

"""A section of a benchmark: a subject, what is timed, and the lines it yields."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.measure.collector import Collector
from bench.measure.line import Line

__all__ = ["Section", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much is measured, and where.

    Args:
        operations: Pending at once in the lines about throughput.
        million: Pending at once in the lines about memory, mass cancel and garbage.
        herd: How many wait for the same event or the same instant.
        rounds: Samples of each subject.
        heavy_rounds: The same where one sample takes seconds.
        loops: Names of event loops.
        seed: Of every shuffle and every drawn timeout.
    """

    operations: int
    million: int
    herd: int
    rounds: int
    heavy_rounds: int
    loops: tuple[str, ...]
    seed: int

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """The settings of the garbage collector everything is measured under."""
        return tuple(Collector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One subject.

    Args:
        name: For ``--only``.
        title: What the section shows.
        timed: What exactly is inside the clock, on both sides.
        lines: Measures, yielding each line when it is known.
    """

    name: str
    title: str
    timed: str
    lines: Callable[[Settings], Iterator[Line]]

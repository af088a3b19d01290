"""A section of a benchmark: a subject, what is timed, and the rows it yields; and how much is measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from bench.measure.collector import Collector
from bench.measure.line import Verdict, heading

__all__ = ["Conditions", "Row", "S", "Section", "Settings"]


class Row(Protocol):
    """What a section yields: a dataclass that prints itself under its section's heading."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def verdict(self) -> Verdict:
        """How it stands to what was promised."""

    def __str__(self) -> str:
        """Its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Settings of every benchmark: rounds, loops and seed.

    Args:
        rounds: Samples of each subject.
        heavy_rounds: The same where one sample takes seconds.
        loops: Names of event loops.
        seed: Of every shuffle and every drawn timeout.
    """

    rounds: int
    heavy_rounds: int
    loops: tuple[str, ...]
    seed: int

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """The settings of the garbage collector everything is measured under."""
        return tuple(Collector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Conditions):
    """How much of the core is measured.

    Args:
        operations: Pending at once in the lines about throughput.
        million: Pending at once in the lines about memory, mass cancel and garbage.
        herd: How many wait for the same event or the same instant.
    """

    operations: int
    million: int
    herd: int


S = TypeVar("S", bound=Conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[S]):
    """One subject.

    Args:
        name: For ``--only``.
        title: What the section shows.
        timed: What exactly is inside the clock, on both sides.
        lines: Measures, yielding each row when it is known.
        heading: The names of the rows' columns.
    """

    name: str
    title: str
    timed: str
    lines: Callable[[S], Iterator[Row]]
    heading: str = heading()

"""A section of a benchmark: a subject, what is timed, and the rows it yields; and how much is measured."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from bench.measure.collector import Collector
from bench.measure.line import Verdict, heading
from bench.measure.loops import LOOPS

__all__ = ["Conditions", "Row", "S", "Section", "sized"]

_T = TypeVar("_T")


class Row(Protocol):
    """What a section yields: a dataclass that prints itself under its section's heading."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def verdict(self) -> Verdict:
        """How it stands to what was promised."""

    def __str__(self) -> str:
        """Its columns."""


def sized(full: _T, quick: _T) -> _T:
    """A field of settings: how much is measured, and how much with ``--quick``."""
    return field(default=full, metadata={"quick": quick})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How much is measured, with a default that `bench.table` shows; base of every benchmark's settings.

    Args:
        rounds: Samples of each subject.
        heavy_rounds: The same where one sample takes seconds.
        loops: Names of event loops.
        seed: The seed of every shuffle and every drawn timeout.
    """

    rounds: int
    heavy_rounds: int
    loops: tuple[str, ...] = LOOPS
    seed: int = 1

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """The settings of the garbage collector everything is measured under."""
        return tuple(Collector)

    def quick(self) -> Self:
        """The same with small numbers, which show that it runs."""
        small: dict[str, Any] = {
            each.name: each.metadata["quick"] for each in fields(self) if "quick" in each.metadata
        }
        return replace(self, **small)

    def numbers(self) -> str:
        """How much is measured, in words."""
        raise NotImplementedError

    def conventions(self) -> Mapping[str, str]:
        """How figures are taken and read; as here where the subject runs in the measuring process."""
        return {
            "samples": (
                f"{self.rounds} of each subject, in turns, after a warm-up round; "
                f"{self.heavy_rounds} without a warm-up where one takes seconds"
            ),
            "collector": "gc on: CPython's default thresholds; gc off; a full collection before each sample",
            "figures": (
                "medians; a ratio compares neighbouring samples (median and quartiles); times are processor time, "
                "passes of the loop wall time"
            ),
        }


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

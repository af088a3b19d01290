"""A line of a benchmark: ours, the reference, their ratio, and whether it is as promised."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from bench.measure.sampling import Spread

__all__ = ["Line", "Skipped", "Verdict", "heading"]

SMALL = 0.01
WHOLE = frozenset(
    {"ns", "instr", "bytes", "objects", "polls", "clients", "answers", "messages", "requests", "1/s"}
)  # units without a fraction


class Verdict(StrEnum):
    """How a line stands to its target."""

    MET = "met"
    MISSED = "MISSED"
    SHOWN = "shown"  # it has no target


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure.

    Args:
        name: What was measured, and against what.
        loop: The event loop it ran on.
        collector: How the garbage collector was set.
        unit: Of ``ours`` and ``reference``.
        ours: The library's figure.
        reference: The other one's, None if there is none.
        ratio: Ours over the reference, None if there is no reference.
        target: The most that is allowed, of the ratio if there is one and ``absolute`` is not set, else of
            ours.
        goal: A lower bound to work towards; it is printed, and failing it is no miss.
        absolute: Judge ``ours``, although there is a ratio.
        note: Whatever else the reader should see.
    """

    name: str
    loop: str
    collector: str
    unit: str
    ours: float
    reference: float | None = None
    ratio: Spread | None = None
    target: float | None = None
    goal: float | None = None
    absolute: bool = False
    note: str = ""

    @property
    def judged(self) -> float:
        """The figure the target is for."""
        return self.ours if self.absolute or self.ratio is None else self.ratio.median

    @property
    def verdict(self) -> Verdict:
        """Met, missed, or only shown."""
        if self.target is None:
            return Verdict.SHOWN
        return Verdict.MET if self.judged <= self.target else Verdict.MISSED

    def __str__(self) -> str:
        ours = _figure(self.ours, self.unit)
        reference = "" if self.reference is None else _figure(self.reference, self.unit)
        ratio = ""
        if self.ratio is not None:
            ratio = f"{_ratio(self.ratio.median)} [{_ratio(self.ratio.low)}-{_ratio(self.ratio.high)}]"
        columns = f"{self.name:<62} {self.loop:<8} {self.collector:<7}{ours:>12} {reference:>12}  {ratio:<25}"
        return f"{columns} {self._bounds():<20} {self.verdict}{f'  ({self.note})' if self.note else ''}"

    def _bounds(self) -> str:
        if self.target is None:
            return ""
        unit = f" {self.unit}" if self.absolute or self.ratio is None else ""
        goal = "" if self.goal is None else f" goal {self.goal:g}"
        return f"<= {self.target:g}{unit}{goal}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row for what cannot be measured here."""

    why: str

    verdict: ClassVar = Verdict.SHOWN

    def __str__(self) -> str:
        return self.why


def heading() -> str:
    """The names of the columns of a line."""
    columns = f"{'':<62} {'loop':<8} {'':<7}{'ours':>12} {'reference':>12}  {'ratio [quartiles]':<25}"
    return f"{columns} {'target, goal':<20} verdict"


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if unit in WHOLE else f"{value:,.2f} {unit}"


def _ratio(value: float) -> str:
    # A thousandth is close enough, unless there is little else.
    return f"{value:.3f}" if value >= SMALL else f"{value:.5f}"

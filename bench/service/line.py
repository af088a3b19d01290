"""A line about the service, which has one event loop and CPython's own collector."""

from dataclasses import dataclass

from bench.measure.collector import Collector
from bench.measure.line import Line, Verdict
from bench.measure.loops import UVLOOP

__all__ = ["LeftOut", "figure"]


def figure(name: str, ours: float, unit: str, *, target: float | None = None, note: str = "") -> Line:
    """One figure of the service.

    Args:
        name: What was measured.
        ours: The figure.
        unit: Its.
        target: The most that is allowed; None if it is only shown.
        note: Whatever else the reader should see.

    Returns:
        Its line.
    """
    return Line(
        name=name, loop=UVLOOP, collector=Collector.DEFAULT, unit=unit, ours=ours, target=target, note=note
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """In place of figures that cannot be taken here.

    Args:
        sentence: What is missing, and what to do about it.
    """

    sentence: str

    @property
    def verdict(self) -> Verdict:
        """There is nothing to judge."""
        return Verdict.SHOWN

    def __str__(self) -> str:
        return self.sentence

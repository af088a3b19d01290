"""A line about the service, which has one event loop and CPython's own collector."""

from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.loops import UVLOOP

__all__ = ["figure"]


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

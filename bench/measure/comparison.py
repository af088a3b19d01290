"""Two subjects taking turns, made into a line."""

from statistics import median

from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.sampling import Sample, added_ratios, ratios, take_turns

__all__ = ["compare", "compare_added"]


def compare(
    name: str,
    *,
    loop: str,
    collector: Collector,
    ours: Sample,
    reference: Sample,
    rounds: int,
    target: float | None = None,
    goal: float | None = None,
) -> Line:
    """Ours over the reference, both in nanoseconds per operation."""
    taken = take_turns(loop, collector, {"ours": ours, "reference": reference}, rounds)
    return Line(
        name=name,
        loop=loop,
        collector=collector,
        unit="ns",
        ours=median(taken["ours"]),
        reference=median(taken["reference"]),
        ratio=ratios(taken["ours"], taken["reference"]),
        target=target,
        goal=goal,
    )


def compare_added(
    name: str,
    *,
    loop: str,
    collector: Collector,
    floor: Sample,
    ours: Sample,
    reference: Sample,
    rounds: int,
    target: float | None = None,
    goal: float | None = None,
) -> Line:
    """What ours adds to the floor over what the reference adds to it, in nanoseconds per operation."""
    taken = take_turns(loop, collector, {"floor": floor, "ours": ours, "reference": reference}, rounds)
    bare = median(taken["floor"])
    return Line(
        name=name,
        loop=loop,
        collector=collector,
        unit="ns",
        ours=median(taken["ours"]) - bare,
        reference=median(taken["reference"]) - bare,
        ratio=added_ratios(taken["floor"], taken["ours"], taken["reference"]),
        target=target,
        goal=goal,
        note=f"floor {bare:,.0f} ns",
    )

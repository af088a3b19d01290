"""Two subjects taking turns, made into a line."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.sampling import Sample, added_ratios, ratios, take_turns
from bench.measure.section import Conditions

__all__ = ["compare", "compare_added", "compare_each"]


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
    unit: str = "ns",
    warm_up: bool = True,
    note: str = "",
) -> Line:
    """Ours over the reference, both in nanoseconds per operation, if no other unit is named."""
    samples = {"ours": ours, "reference": reference}
    taken = take_turns(loop, collector, samples, rounds, warm_up=warm_up)
    return Line(
        name=name,
        loop=loop,
        collector=collector,
        unit=unit,
        ours=median(taken["ours"]),
        reference=median(taken["reference"]),
        ratio=ratios(taken["ours"], taken["reference"]),
        target=target,
        goal=goal,
        note=note,
    )


def compare_each(subjects: Mapping[str, Sequence[Sample]], conditions: Conditions) -> Iterator[Line]:
    """Compare ours and a reference under each name, on each loop and with each setting of the collector."""
    for loop in conditions.loops:
        for collector in conditions.collectors:
            for name, (ours, reference) in subjects.items():
                yield compare(
                    name,
                    loop=loop,
                    collector=collector,
                    ours=ours,
                    reference=reference,
                    rounds=conditions.rounds,
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
    warm_up: bool = True,
) -> Line:
    """What ours adds to the floor over what the reference adds to it, in nanoseconds per operation."""
    samples = {"floor": floor, "ours": ours, "reference": reference}
    taken = take_turns(loop, collector, samples, rounds, warm_up=warm_up)
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

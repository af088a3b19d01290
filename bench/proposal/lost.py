"""The figures in which another contestant was better: one sentence for each figure of each point."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.designs.ours import OurPurgatory
from bench.proposal.point import HARNESS, Point, Reading
from bench.proposal.results import Range, Readings, net_cpu, range_of, takes_callbacks
from bench.proposal.waits import AwaitedOperations, KeyedWaits

__all__ = ["OURS", "Loss", "compared", "losses"]

OURS = (OurPurgatory.name, KeyedWaits.name, AwaitedOperations.name)
"""The library's own contestants; the first uses callbacks, the others are awaited."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A figure that is compared.

    Args:
        value: Returns a reading's value.
        words: What who is better did, ``{}`` for by how much.
        more: Whether more is better.
        share: The least relative difference to report.
        least: The least absolute difference to report, in the figure's unit: a collector's millisecond is no loss.
        unit: Say the difference in this unit, not as a share, which means nothing near zero.
    """

    value: Callable[[Reading], float | None]
    words: str
    more: bool = False
    share: float = 0.0
    least: float = 0.0
    unit: str = ""


CPU = _Judged(lambda reading: reading.cpu_s_per_million, "used {} less processor time", share=0.005)
LATENESS = _Judged(
    lambda reading: reading.lateness_ms_p99,
    "was {} less late at the 99th percentile",
    share=0.02,
    least=0.05,
    unit="ms",
)
JUDGED = (
    CPU,
    _Judged(lambda reading: reading.rate_reached, "took {} more requests a second", more=True, share=0.01),
    LATENESS,
    _Judged(
        lambda reading: reading.gc_ms, "spent {} less in the collector", share=0.02, least=1.0, unit="ms"
    ),
    _Judged(lambda reading: reading.held_mib, "held {} less when all had ended", least=1.0, unit="MiB"),
    _Judged(lambda reading: reading.entries_left, "left {} fewer behind", least=1.0, unit="entries"),
)


@dataclass(frozen=True, slots=True)
class Loss:
    """A figure of a point in which another contestant was better.

    Attributes:
        ours: The point of the library's.
        theirs: The other's.
        words: What the other did better, and by how much.
        doubt: Why it may be chance; empty if every reading of theirs was better than every one of ours.
    """

    ours: Point
    theirs: Point
    words: str
    doubt: str

    def __str__(self) -> str:
        gc = "" if self.ours.collector == "default" else f", {self.ours.collector}"
        doubt = f"; {self.doubt}" if self.doubt else ""
        return (
            f"at {self.ours.offered.replace('flood', 'the flood')} on {self.ours.loop}, {self.ours.case}{gc}: "
            f"{self.theirs.name} {self.words} than {self.ours.name}{doubt}"
        )


def losses(readings: Readings) -> Iterator[Loss]:
    """Every figure in which another contestant's median is better, point by point; harness and ours do not count.

    Args:
        readings: The readings of all points.

    Yields:
        Losses of the library as it comes: with its own size of wheel.
    """
    for ours, theirs in compared(readings):
        for judged in JUDGED:
            words = _better(judged, readings[ours], readings[theirs])
            if words is not None:
                more = _net(readings, ours, theirs) if judged is CPU else ""
                more = _early(readings, theirs) if judged is LATENESS else more
                yield Loss(ours, theirs, words[0] + more, words[1])


def compared(readings: Readings) -> Iterator[tuple[Point, Point]]:
    """Each point of ours, the lowest rate first, with every one of the same load and kind."""
    for ours in sorted(readings, key=lambda point: (point.rate, point.loop, point.case, point.collector)):
        if ours.contestant in OURS and not ours.wheel_size and not _beside_compiled(ours, readings):
            for theirs in readings:
                if theirs.contestant not in (*OURS, HARNESS) and _like(ours) == _like(theirs):
                    yield ours, theirs


def _beside_compiled(point: Point, readings: Readings) -> bool:
    """Whether a point is of pure Python, and the compiled core was measured too."""
    return point.pure and replace(point, pure=False) in readings


def _like(point: Point) -> tuple[object, ...]:
    return (takes_callbacks(point), point.loop, point.case, point.rate, point.collector, point.seed)


def _better(judged: _Judged, ours: Sequence[Reading], theirs: Sequence[Reading]) -> tuple[str, str] | None:
    """What they did better, and why that may be chance; None if it is not worth a word."""
    mine, other = range_of(ours, judged.value), range_of(theirs, judged.value)
    if mine is None or other is None:
        return None
    ahead = (other.median - mine.median) * (1 if judged.more else -1)
    if ahead <= max(judged.least, judged.share * abs(mine.median)):
        return None
    how_much = f"{ahead:,.{2 if ahead < 10 and judged.unit == 'ms' else 0}f} {judged.unit}"  # noqa: PLR2004 - digits
    if not judged.unit:
        how_much = _share(ahead / mine.median)
    if len(ours) == len(theirs) == 1:
        return judged.words.format(how_much), "one reading each"
    return judged.words.format(how_much), "" if _apart(judged, mine, other) else "their readings overlap"


def _net(readings: Readings, ours: Point, theirs: Point) -> str:
    """How much less processor time that is without the harness's."""
    mine, other = net_cpu(readings, ours), net_cpu(readings, theirs)
    if mine is None or other is None or not 0 < other.median < mine.median:
        return ""
    return f" ({_share(1 - other.median / mine.median)} without the harness)"


def _early(readings: Readings, theirs: Point) -> str:
    """A note if some requests expired before their deadline, which makes less lateness worth less."""
    early = sum(reading.early for reading in readings[theirs])
    expired = sum(reading.timeout_rate * theirs.requests for reading in readings[theirs])
    return f" (and too early in {_share(early / expired)} of its expirations)" if early else ""


def _apart(judged: _Judged, mine: Range, other: Range) -> bool:
    return other.low > mine.high if judged.more else other.high < mine.low


def _share(share: float) -> str:
    return f"{share:.1%}".replace("%", " %") if share < 0.1 else f"{share:.0%}".replace("%", " %")  # noqa: PLR2004 - digits

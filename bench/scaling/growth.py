"""A line of how a price grows: at one size, for every contestant, compared with the smallest size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.designs import DESIGNS
from bench.designs.by_hand import ByHandPurgatory
from bench.designs.interface import Design
from bench.designs.ours import OurPurgatory
from bench.designs.purging_wheel import PurgingWheelPurgatory
from bench.measure.collector import Collector
from bench.measure.line import Verdict
from bench.measure.sampling import Sample, ratios, take_turns
from bench.scaling.floor import Floor
from bench.scaling.settings import FLAT

__all__ = ["COMPARED", "HEADING", "Growth", "followed"]

COMPARED: Final[tuple[type[Design], ...]] = (OurPurgatory, PurgingWheelPurgatory, ByHandPurgatory)
"""The contestants; the floor joins them where a dict does the same."""

_COLUMNS: Final = (*(design.name for design in COMPARED), Floor.name)
HEADING: Final = (
    f"{'':<36} {'loop':<8} {'':<7} " + " ".join(f"{f'{name}, ns':>22}" for name in _COLUMNS) + "  ours"
)
assert set(_COLUMNS[:-1]) <= set(DESIGNS), "all but the floor are known designs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The price at one size.

    Args:
        name: What was done, and at which size.
        loop: The event loop it ran on.
        collector: How the garbage collector was set.
        ns: Median price by the design's name.
        times: The same over that at the smallest size, formed round by round: median by name.
        explanation: Why ours grows, where it does.
    """

    name: str
    loop: str
    collector: str
    ns: Mapping[str, float]
    times: Mapping[str, float]
    explanation: str

    @property
    def flat(self) -> bool:
        """Whether ours is."""
        return self.times[OurPurgatory.name] <= FLAT

    @property
    def verdict(self) -> Verdict:
        """Nothing was promised."""
        return Verdict.SHOWN

    def __str__(self) -> str:
        cells = " ".join(
            f"{f'{self.ns[name]:,.0f} x{self.times[name]:.2f}' if name in self.ns else '':>22}"
            for name in _COLUMNS
        )
        said = "flat" if self.flat else f"grows: {self.explanation}"
        return f"{self.name:<36} {self.loop:<8} {self.collector:<7} {cells}  {said}"


def followed(
    what: str,
    sizes: Sequence[object],
    sample_of: Callable[[type[Design], int], Sample],
    *,
    designs: Sequence[type[Design]],
    loop: str,
    collector: Collector,
    rounds: int,
    explanation: str,
) -> Iterator[Growth]:
    """Measure a price over sizes; all contestants take turns at every size, so that ratios are of neighbours.

    Args:
        what: Is done; ``{}`` stands for the size.
        sizes: From the smallest on, as printed.
        sample_of: Makes the sample of a design at the size of that index.
        designs: Who takes part.
        loop: Name of the loop.
        collector: How the garbage collector is set.
        rounds: Samples of each.
        explanation: Why ours grows, should it.
    """
    samples = {
        f"{design.name} {place}": sample_of(design, place)
        for place in range(len(sizes))
        for design in designs
    }
    taken = take_turns(loop, collector, samples, rounds, warm_up=False)
    for place, size in enumerate(sizes):
        label = f"{size:,}" if isinstance(size, int) else str(size)
        yield Growth(
            name=what.format(label),
            loop=loop,
            collector=collector,
            ns={design.name: median(taken[f"{design.name} {place}"]) for design in designs},
            times={
                design.name: ratios(taken[f"{design.name} {place}"], taken[f"{design.name} 0"]).median
                for design in designs
            },
            explanation=explanation,
        )

"""Interleaved samples and what is read from them: medians, ratios of neighbours, and their spread.

The machines at hand are shared, and a figure in nanoseconds drifts by a third between runs. Two subjects that
take turns drift together, so the ratio of two neighbouring samples is worth more than any of the figures: it
is formed first, round by round, and its median and quartiles are what is judged.
"""

import gc
import math
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.measure.collector import Collector, collector_set
from bench.measure.loops import run_on

__all__ = ["Rounds", "Sample", "Spread", "added_ratios", "ratios", "take_turns"]

Sample = Callable[[], Awaitable[float]]
Rounds = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Spread:
    """A median between its quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The median and the quartiles of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(low, median, high)


def take_turns(
    loop: str, collector: Collector, samples: Mapping[str, Sample], rounds: int, *, warm_up: bool = True
) -> Rounds:
    """Take samples ABAB... on one loop.

    Args:
        loop: Name of the loop; a fresh one.
        collector: How the garbage collector is set. Whatever the setting, a collection goes before each
            sample, so that none pays for the garbage of the one before.
        samples: Name to sample; each returns its own figure.
        rounds: How many of each are kept.
        warm_up: Take a round before, and throw it away.

    Returns:
        Name to figures; figures at one position were taken next to each other.
    """

    async def main() -> Rounds:
        taken: dict[str, list[float]] = {name: [] for name in samples}
        for round_number in range(-1 if warm_up else 0, rounds):
            for name, sample in samples.items():
                gc.collect()
                figure = await sample()
                if round_number >= 0:
                    taken[name].append(figure)
        return taken

    with collector_set(collector):
        return run_on(loop, main())


def ratios(ours: Sequence[float], reference: Sequence[float]) -> Spread:
    """Spread of ours over the reference, round by round."""
    return Spread.of([_ratio(a, b) for a, b in zip(ours, reference, strict=True)])


def added_ratios(floor: Sequence[float], ours: Sequence[float], reference: Sequence[float]) -> Spread:
    """Spread of what ours adds to the floor over what the reference adds to it, round by round."""
    return Spread.of([_ratio(a - bare, b - bare) for bare, a, b in zip(floor, ours, reference, strict=True)])


def _ratio(ours: float, reference: float) -> float:
    # A reference that adds nothing to its floor is the noise of too small a run; infinity meets no target.
    return ours / reference if reference > 0 else math.inf

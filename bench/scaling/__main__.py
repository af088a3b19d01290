"""Follow the price of an operation: against how many wait, on how many keys, beside whom, for how long."""

import dataclasses
import sys

from bench.measure.command import Benchmark
from bench.measure.loops import LOOPS
from bench.scaling.growth import FLAT
from bench.scaling.sections import SECTIONS
from bench.scaling.settings import ScalingSettings

FULL = ScalingSettings(
    operations=20_000,
    pending=(1_000, 10_000, 100_000, 1_000_000),
    keys=(1, 3, 10, 30, 100),
    watchers=(1, 10, 100, 1_000, 10_000, 100_000),
    standing=10_000,
    millions=(1_000_000, 2_000_000, 5_000_000, 10_000_000),
    rounds=5,
    heavy_rounds=3,
    loops=LOOPS,
    seed=1,
)


def numbers(settings: ScalingSettings) -> str:
    """How much is measured."""
    return f"{settings.operations:,} operations timed in each sample, beside up to {settings.pending[-1]:,} others"


def conventions(settings: ScalingSettings) -> dict[str, str]:
    """How the figures are taken, and how to read them."""
    return {
        "samples": (
            f"{settings.rounds} of each contestant at every size, in turns; {settings.heavy_rounds} in section pending"
        ),
        "figures": "nanoseconds of processor time, medians; x: over the smallest size, median of neighbours' ratios",
        "flat": f"ours is no more than x{FLAT:g}",
    }


BENCHMARK = Benchmark(
    module="bench.scaling",
    purpose=__doc__,
    title="purgatory_async: what an operation costs as more of everything waits",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(
        FULL,
        operations=600,
        pending=(100, 1_000),
        keys=(1, 10),
        watchers=(1, 100),
        standing=200,
        millions=(1_000, 2_000),
        rounds=1,
        heavy_rounds=1,
        loops=LOOPS[:1],
    ),
    numbers=numbers,
    conventions=conventions,
    bounded=("pending", "watchers", "millions"),
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())

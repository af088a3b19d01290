"""Measure the patterns of purgatory_async and print each beside what one writes without it."""

import dataclasses
import sys

from bench.measure.command import Benchmark
from bench.measure.loops import LOOPS
from bench.patterns.sections import SECTIONS
from bench.patterns.settings import PatternSettings

FULL = PatternSettings(
    waiters=100_000,
    races=100_000,
    items=10_000,
    takers=100_000,
    rounds=9,
    heavy_rounds=3,
    loops=LOOPS,
    seed=1,
)


def numbers(settings: PatternSettings) -> str:
    """How much is measured."""
    return (
        f"{settings.waiters:,} waiters on a watermark; {settings.races:,} races of each contestant; "
        f"{settings.items:,} items handed off, up to {settings.takers:,} takers of one key"
    )


BENCHMARK = Benchmark(
    module="bench.patterns",
    purpose=__doc__,
    title="purgatory_async: the patterns, beside what one writes without them",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(
        FULL, waiters=1_000, races=1_000, items=500, takers=1_000, rounds=2, heavy_rounds=1
    ),
    numbers=numbers,
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())

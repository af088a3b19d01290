"""Measure the core of purgatory_async and print each figure beside its target."""

import dataclasses
import sys

from bench.core.sections import SECTIONS
from bench.measure.command import Benchmark
from bench.measure.loops import LOOPS
from bench.measure.section import Settings

FULL = Settings(
    operations=10_000, million=1_000_000, herd=100_000, rounds=9, heavy_rounds=3, loops=LOOPS, seed=1
)


def numbers(settings: Settings) -> str:
    """How much is measured."""
    return (
        f"N = {settings.operations:,} at once, {settings.million:,} for memory, cancel and garbage, "
        f"{settings.herd:,} for herd"
    )


BENCHMARK = Benchmark(
    module="bench.core",
    purpose=__doc__,
    title="purgatory_async: speed and memory of the core",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(FULL, operations=1_000, million=9_000, herd=1_000, rounds=2, heavy_rounds=1),
    numbers=numbers,
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())

"""Measure the pipeline of purgatory_async: rows a second of each job, on a Spark of this machine's."""

import dataclasses
import sys

from bench.measure.command import Benchmark
from bench.pipeline.sections import SECTIONS
from bench.pipeline.settings import PipelineSettings

FULL = PipelineSettings(
    operations=5_000_000,
    master="local[2]",
    steps=(1.5, 2.0, 3.0, 4.0, 6.0),
    rounds=3,
    heavy_rounds=3,
    loops=("none",),
    seed=1,
)


def numbers(settings: PipelineSettings) -> str:
    """How much is measured."""
    return f"{settings.operations:,} operations"


def conventions(settings: PipelineSettings) -> dict[str, str]:
    """How the figures are taken, and how to read them."""
    return {
        "samples": f"{settings.heavy_rounds} of each, their median; Spark's start is in none of them",
        "spark": f"{settings.master}, its driver and the workers share the cores named above",
        "per loop": "rows while a plain Python loop turns a hundred times; a slower machine changes it less than "
        "rows a second",
    }


BENCHMARK = Benchmark(
    module="bench.pipeline",
    purpose=__doc__,
    title="purgatory_async: the pipeline",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(FULL, operations=100_000, steps=(1.5,), rounds=1, heavy_rounds=1),
    numbers=numbers,
    conventions=conventions,
    chooses_loop=False,
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())

"""Measure the journal of purgatory_async: its cost beside the same operations without it, and the disk's part."""

import dataclasses
import sys

from bench.journal.sections import SECTIONS
from bench.journal.settings import JournalSettings
from bench.measure.command import Benchmark
from bench.measure.loops import LOOPS

FULL = JournalSettings(
    records=10_000,
    operations=20_000,
    commits=500,
    clients=100,
    segment_bytes=4 * 1024 * 1024,
    rounds=5,
    heavy_rounds=3,
    loops=LOOPS,
    seed=1,
)


def numbers(settings: JournalSettings) -> str:
    """How much is measured."""
    return (
        f"{settings.records:,} records of each kind; {settings.operations:,} operations, three records each; "
        f"{settings.commits:,} commits of each of {settings.clients:,} clients"
    )


BENCHMARK = Benchmark(
    module="bench.journal",
    purpose=__doc__,
    title="purgatory_async: what its journal costs, on the directory for temporary files",
    sections=SECTIONS,
    full=FULL,
    quick=dataclasses.replace(
        FULL,
        records=200,
        operations=1_000,
        commits=5,
        clients=10,
        segment_bytes=65_536,
        rounds=1,
        heavy_rounds=1,
        loops=LOOPS[:1],
    ),
    numbers=numbers,
)

main = BENCHMARK.run

if __name__ == "__main__":
    sys.exit(main())

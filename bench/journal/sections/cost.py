"""Processor time for a million operations: without an observer, with one that does nothing, with a journal."""

import time
from collections.abc import Callable, Iterator

from bench.journal.observed import Observed, idle, journaled, unobserved, work
from bench.journal.settings import JournalSettings
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.sampling import Sample, ratios, take_turns
from bench.measure.section import Section
from purgatory_async.journal import Sync

__all__ = ["SECTION"]

MILLION = 1_000_000
WAYS: dict[str, Observed] = {
    "no observer": unobserved,
    "an observer that does nothing": idle,
    **{f"journal, {sync.value}": journaled(sync) for sync in Sync},
}
CLOCKS: dict[str, Callable[[], int]] = {
    "the loop's thread": time.thread_time_ns,
    "the process": time.process_time_ns,
}


def lines(settings: JournalSettings) -> Iterator[Line]:
    """For each loop: the thread of the loop, then the whole process."""
    for loop in settings.loops:
        for clock, read in CLOCKS.items():
            samples = {name: spent(way, settings.operations, read) for name, way in WAYS.items()}
            taken = take_turns(loop, Collector.DEFAULT, samples, settings.rounds)
            bare = taken["no observer"]
            for name, figures in taken.items():
                yield Line(
                    name=f"{clock}: {name} / no observer",
                    loop=loop,
                    collector=Collector.DEFAULT,
                    unit="s",
                    ours=sorted(figures)[len(figures) // 2],
                    reference=sorted(bare)[len(bare) // 2],
                    ratio=ratios(figures, bare),
                )


def spent(observed: Observed, operations: int, read: Callable[[], int]) -> Sample:
    """Seconds of processor time for a million operations, until their records are on the disk."""

    async def sample() -> float:
        async with observed() as (purgatory, journal):
            started = read()
            await work(purgatory, operations)
            if journal is not None:
                await journal.flush()
            return (read() - started) / 1e9 / operations * MILLION

    return sample


SECTION = Section(
    name="cost",
    title="A million operations, and the cost of writing them down",
    timed=(
        "Processor time in seconds for a million operations, up to the sync of the last record. Each is "
        "submitted with a timeout of 30 s and one key, and completed by its key: three records of 250 bytes. "
        "The loop's thread: what the event loop loses. The process: also the thread that encodes and writes. "
        "No segment becomes full here, so no process turns one into Parquet."
    ),
    lines=lines,
)

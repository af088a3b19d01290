"""How long the loop is away while the journal writes, and while segments become full and are sealed."""

import asyncio
from collections.abc import Iterator

from bench.journal.observed import Observed, journaled, unobserved, work
from bench.journal.settings import JournalSettings
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.loops import run_on
from bench.measure.section import Section
from bench.measure.stall import StallWatch
from purgatory_async.journal import Sync

__all__ = ["SECTION"]

# With 20 operations before each rest, some thousand in a second: the disk keeps up, and nothing piles up.
PAUSE_S = 0.003


def lines(settings: JournalSettings) -> Iterator[Line]:
    """For each loop: the same load unobserved, written down, and written down while segments rotate."""
    ways = {
        "no observer": unobserved,
        "journal, no segment becomes full": journaled(Sync.GROUP),
        "journal, segments rotate": journaled(Sync.GROUP, segment_bytes=settings.segment_bytes),
    }
    for loop in settings.loops:
        for name, way in ways.items():
            watches = [run_on(loop, watched(way, settings.operations)) for _ in range(settings.heavy_rounds)]
            yield Line(
                name=f"longest pass: {name}",
                loop=loop,
                collector=Collector.DEFAULT,
                unit="ms",
                ours=max(watch.longest_ms for watch in watches),
                note=str(max(watches, key=lambda watch: watch.longest_wall_ms)),
            )


async def watched(observed: Observed, operations: int) -> StallWatch:
    """The longest pass while so many operations begin and end, some in each pass."""
    watch = StallWatch()
    async with observed() as (purgatory, journal):
        load = asyncio.ensure_future(work(purgatory, operations, PAUSE_S))
        while not load.done():
            await watch.watch_pass()
        if journal is not None:
            flushed = asyncio.ensure_future(journal.flush())
            while not flushed.done():
                await watch.watch_pass()
    return watch


SECTION = Section(
    name="stall",
    title="The longest time for which the loop stands still",
    timed=(
        "The longest pass of the loop in all rounds. Every 3 ms 20 operations begin and end while a task "
        "yields all the time, up to the return of a last flush. The journal's thread shares the interpreter "
        "with the loop's. A full segment is closed, another one is opened, and a new process turns the full "
        "one into Parquet."
    ),
    lines=lines,
)

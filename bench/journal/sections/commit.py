"""How long an acknowledgement waits for the disk, and how many records get there in a second."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from bench.journal.observed import begin_and_end, journaled, work
from bench.journal.settings import JournalSettings
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.loops import run_on
from bench.measure.section import Section
from purgatory_async.journal import Sync

__all__ = ["SECTION"]

RECORDS = 3  # of an operation
LINE = bytes(250)


def lines(settings: JournalSettings) -> Iterator[Line]:
    """For each loop: latencies of one client and of many, with what they get through; then without waiting."""
    for loop in settings.loops:
        syncs = bare_syncs(settings.commits)
        for clients in (1, settings.clients):
            taken, rate = run_on(loop, acknowledged(clients, settings.commits))
            for share in (50, 99):
                yield _line(
                    f"commit, p{share}, {clients:,} at once / write and fdatasync",
                    loop,
                    "ms",
                    percentile(taken, share),
                    percentile(syncs, share),
                )
            yield _line(f"records made durable, always, {clients:,} at once", loop, "1/s", rate)
        for sync in (Sync.ALWAYS, Sync.GROUP):
            rates = [run_on(loop, streamed(sync, settings.operations)) for _ in range(settings.heavy_rounds)]
            yield _line(f"records made durable, {sync.value}, no commit", loop, "1/s", median(rates))


def _line(name: str, loop: str, unit: str, ours: float, reference: float | None = None) -> Line:
    return Line(name=name, loop=loop, collector=Collector.DEFAULT, unit=unit, ours=ours, reference=reference)


def percentile(figures: list[float], share: int) -> float:
    """The value below which so many in a hundred are."""
    return quantiles(figures, n=100, method="inclusive")[share - 1]


async def acknowledged(clients: int, commits: int) -> tuple[list[float], float]:
    """Operations that are each waited for: milliseconds of every commit, and records in a second."""
    taken: list[float] = []
    async with journaled(Sync.ALWAYS)() as (purgatory, journal):
        assert journal is not None

        async def client(number: int) -> None:
            for turn in range(commits):
                begin_and_end(purgatory, number * commits + turn)
                started = time.perf_counter_ns()
                await journal.commit()
                taken.append((time.perf_counter_ns() - started) / 1e6)

        started = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        rate = RECORDS * len(taken) / (time.perf_counter() - started)
    return taken, rate


async def streamed(sync: Sync, operations: int) -> float:
    """Records in a second without a waiter, up to the sync of the last."""
    async with journaled(sync)() as (purgatory, journal):
        assert journal is not None
        started = time.perf_counter()
        await work(purgatory, operations)
        await journal.flush()
        return RECORDS * operations / (time.perf_counter() - started)


def bare_syncs(times: int) -> list[float]:
    """Milliseconds of a write and its fdatasync on the same disk: what no journal can go below."""
    taken = []
    with tempfile.TemporaryDirectory() as directory:
        file = os.open(Path(directory) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(max(2, times)):
            started = time.perf_counter_ns()
            os.write(file, LINE * RECORDS)
            os.fdatasync(file)
            taken.append((time.perf_counter_ns() - started) / 1e6)
        os.close(file)
    return taken


SECTION = Section(
    name="commit",
    title="Latency of a commit with the policy always, and records made durable in a second",
    timed=(
        "Wall time. A client submits and completes an operation and awaits commit(), again and again. The "
        "figure is the time from the call to its return, fdatasync included; commits that wait at the same "
        "time share one. Reference: a write of as many bytes and an fdatasync, one after another, and nothing "
        "else. No commit: operations as fast as the loop makes them, up to the return of a last flush."
    ),
    lines=lines,
)

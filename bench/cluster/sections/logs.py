"""The logs alone, without the service: what one worker can append, and what several can."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from bench.cluster.members import Burst, Member, members
from bench.cluster.settings import ClusterSettings
from bench.cluster.stores import NotInstalled, store_named
from bench.measure.line import Skipped, Verdict
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section
from bench.service.latencies import percentile
from purgatory_async.durable.urls import Sync

__all__ = ["SECTION"]

COLUMNS: Final = (
    "log", "1 client: p50 / p99, ms", "all clients: signals/s", "goal", "p50 / p99, ms", "`append` alone, 1/s",
    "2 workers: signals/s, p99 ms", "4 workers", "idle wake-up, p50 / p99 ms", "`end()`, p50 / p99 ms",
)  # fmt: skip
MOST_WORKERS: Final = 4


class Subject(NamedTuple):
    """A log.

    Attributes:
        name: In the table.
        store: What keeps it; None for memory, which has one worker.
        sync: Whether an append waits for the disk.
        goal: How many signals a second one worker should take of all clients.
    """

    name: str
    store: str | None
    sync: Sync = "always"
    goal: int | None = None


SUBJECTS: Final = (
    Subject("memory", None),
    Subject("SQLite, `always`", "sqlite", goal=30_000),
    Subject("SQLite, `os`", "sqlite", "os"),
    Subject("Postgres", "postgres", goal=20_000),
    Subject("Redis, `everysec`", "redis", goal=35_000),
)


@dataclass(slots=True)
class Readings:
    """What was read of one log; a burst a round, and all single figures where a percentile needs them."""

    one_client: list[Burst] = field(default_factory=list[Burst])
    clients: list[Burst] = field(default_factory=list[Burst])
    appends: list[Burst] = field(default_factory=list[Burst])
    two_workers: list[Burst] = field(default_factory=list[Burst])
    four_workers: list[Burst] = field(default_factory=list[Burst])
    woken_ms: list[float] = field(default_factory=list[float])
    ends_ms: list[float] = field(default_factory=list[float])


@dataclass(frozen=True, slots=True)
class Cells:
    """A row of the table; ``per_s`` and ``goal`` are numbers of its."""

    cells: tuple[str, ...]
    per_s: float
    goal: int | None

    @property
    def verdict(self) -> Verdict:
        """Whether one worker takes as many signals as it should."""
        if self.goal is None:
            return Verdict.SHOWN
        return Verdict.MET if self.per_s >= self.goal else Verdict.MISSED

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells)} |"


def lines(settings: ClusterSettings) -> Iterator[Row]:
    """A row for each log that can be kept here."""
    left_out: list[str] = []
    with ExitStack() as stack:
        urls: dict[Subject, str | None] = {}
        for subject in SUBJECTS:
            try:
                urls[subject] = subject.store and stack.enter_context(store_named(subject.store)).url
            except NotInstalled as missing:
                left_out.append(str(missing))
        readings = run_on(UVLOOP, _read_all(urls, settings))
    for subject, reading in readings.items():
        yield _row(subject, reading)
    for sentence in left_out:
        yield Skipped(sentence)


async def _read_all(urls: dict[Subject, str | None], settings: ClusterSettings) -> dict[Subject, Readings]:
    readings = {subject: Readings() for subject in urls}
    async with members(MOST_WORKERS) as workers:
        for _ in range(settings.rounds):
            for subject, url in urls.items():
                await _read(subject, url, workers, settings, readings[subject])
    return readings


async def _read(
    subject: Subject,
    url: str | None,
    workers: list[Member],
    settings: ClusterSettings,
    reading: Readings,
) -> None:
    """One round: workers join one after another, and all leave at the end."""
    first, second = workers[:2]
    clients, seconds = settings.clients, settings.log_s
    where = url, subject.sync
    reading.appends.append(await Burst.of("append", [first], clients, seconds, *where))
    await first.do("open", *where)
    await Burst.of("signal", [first], clients, seconds / 4)  # a warm-up
    reading.one_client.append(await Burst.of("signal", [first], 1, seconds))
    reading.clients.append(await Burst.of("signal", [first], clients, seconds))
    reading.ends_ms += await first.do("end", settings.requests)
    if url is not None:
        await second.do("open", *where)
        await first.do("wake", settings.wakeups)
        reading.woken_ms += await second.do("woken", settings.wakeups)
        reading.two_workers.append(await Burst.of("signal", workers[:2], clients, seconds))
        for worker in workers[2:]:
            await worker.do("open", *where)
        reading.four_workers.append(await Burst.of("signal", workers, clients, seconds))
    for worker in workers if url is not None else [first]:
        await worker.do("close")


def _row(subject: Subject, reading: Readings) -> Cells:
    per_s = median(burst.per_s for burst in reading.clients)
    cells = (
        subject.name,
        _latency(reading.one_client),
        f"{per_s:,.0f}",
        "" if subject.goal is None else f"{subject.goal:,}",
        _latency(reading.clients),
        f"{median(burst.per_s for burst in reading.appends):,.0f}",
        _several(reading.two_workers),
        _several(reading.four_workers),
        _percentiles(reading.woken_ms),
        _percentiles(reading.ends_ms),
    )
    return Cells(cells, per_s, subject.goal)


def _latency(bursts: list[Burst]) -> str:
    p50, p99 = (median(percentile(burst.took_ms, share) for burst in bursts) for share in (0.5, 0.99))
    return f"{p50:.2f} / {p99:.2f}"


def _several(bursts: list[Burst]) -> str:
    if not bursts:
        return ""
    p99 = median(percentile(burst.took_ms, 0.99) for burst in bursts)
    return f"{median(burst.per_s for burst in bursts):,.0f}, {p99:.1f}"


def _percentiles(values: list[float]) -> str:
    return f"{percentile(values, 0.5):.2f} / {percentile(values, 0.99):.2f}" if values else ""


SECTION = Section(
    name="logs",
    title="The logs alone: signals between workers, without the service",
    timed=(
        "Wall time, inside the workers. Each client awaits `Cluster.signal`, whose entry is then durable and applied, "
        "before it sends the next; `append` alone is `Log.append` of single entries without a cluster, so that nothing "
        "reads them. Several workers are processes that share the clients, and each applies every entry. Wake-up: from "
        "a signal at one worker until another one applies it, with nothing else running. Medians of the rounds, the "
        "logs in turns; wake-ups and `end()` over all rounds."
    ),
    lines=lines,
    heading=f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}",
)

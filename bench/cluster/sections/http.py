"""The service on each store over HTTP, beside the one in memory."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import ClassVar, Final

from bench.cluster.deployment import DEPLOYMENTS, Deployment, deployed
from bench.cluster.measures import answers_per_s, expiry_ms, idle_ms, wakeup_ms
from bench.cluster.settings import ClusterSettings
from bench.cluster.stores import NotInstalled
from bench.measure.line import Skipped, Verdict
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section
from bench.service.latencies import percentile

__all__ = ["SECTION"]

COLUMNS: Final = (
    "", "submit p50, ms", "read p50, ms", "answers/s, 1 worker", "2 workers", "wake-up p50 / p99, ms",
    "expiry late p99, ms", "worker killed", "ready with all pending, s", "from a checkpoint",
)  # fmt: skip
Figures = list[float]


@dataclass(slots=True)
class Readings:
    """What was read of one deployment; a figure a round, or all single ones where a percentile needs them."""

    submit_ms: Figures = field(default_factory=Figures)
    read_ms: Figures = field(default_factory=Figures)
    one: Figures = field(default_factory=Figures)
    two: Figures = field(default_factory=Figures)
    wakeups_ms: Figures = field(default_factory=Figures)
    late_ms: Figures = field(default_factory=Figures)
    killed_ms: Figures = field(default_factory=Figures)
    ready_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    """A row of the table."""

    cells: tuple[str, ...]

    verdict: ClassVar = Verdict.SHOWN

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells)} |"


def lines(settings: ClusterSettings) -> Iterator[Row]:
    """A row for each deployment that can be started here."""
    left_out: list[str] = []
    with ExitStack() as stack:
        deployments: list[Deployment] = []
        for name in DEPLOYMENTS:
            try:
                deployments.append(stack.enter_context(deployed(name)))
            except NotInstalled as missing:
                left_out.append(str(missing))
        readings = run_on(UVLOOP, _read_all(deployments, settings))
    memory = readings["memory"]
    for name, reading in readings.items():
        yield Cells((name, *_cells(reading, memory)))
    for sentence in left_out:
        yield Skipped(sentence)


async def _read_all(deployments: list[Deployment], settings: ClusterSettings) -> dict[str, Readings]:
    readings = {deployment.name: Readings() for deployment in deployments}
    try:
        for deployment in deployments:
            await deployment.start()
            await idle_ms(deployment, settings.requests // 4)  # a warm-up
        for _ in range(settings.rounds):
            for deployment in deployments:
                await _read(deployment, settings, readings[deployment.name])
        for deployment in deployments:
            reading = readings[deployment.name]
            if deployment.store is not None:
                reading.killed_ms = await expiry_ms(deployment, settings.expiring, killed=True)
                reading.ready_s = await deployment.ready_s(settings.pending)
    finally:
        for deployment in deployments:
            await deployment.stop()
    return readings


async def _read(deployment: Deployment, settings: ClusterSettings, reading: Readings) -> None:
    """One round."""
    submits, reads = await idle_ms(deployment, settings.requests)
    reading.submit_ms.append(statistics.median(submits))
    reading.read_ms.append(statistics.median(reads))
    reading.wakeups_ms += await wakeup_ms(deployment, settings.wakeups)
    reading.late_ms += await expiry_ms(deployment, settings.expiring)
    reading.one.append(await answers_per_s(deployment, 1, settings.clients, settings.burst_s))
    if deployment.store is not None:
        reading.two.append(await answers_per_s(deployment, 2, settings.clients, settings.burst_s))


def _cells(reading: Readings, memory: Readings) -> tuple[str, ...]:
    ready = ("", "") if reading.ready_s is None else tuple(f"{seconds:.1f}" for seconds in reading.ready_s)
    return (
        _added(reading.submit_ms, memory.submit_ms),
        _added(reading.read_ms, memory.read_ms),
        _shown(reading.one, statistics.median, ",.0f"),
        _shown(reading.two, statistics.median, ",.0f"),
        f"{percentile(reading.wakeups_ms, 0.5):.1f} / {percentile(reading.wakeups_ms, 0.99):.1f}",
        _shown(reading.late_ms, lambda late: percentile(late, 0.99), ".0f"),
        _shown(reading.killed_ms, lambda late: percentile(late, 0.99), ".0f"),
        *ready,
    )


def _added(ours: Figures, memory: Figures) -> str:
    median = f"{statistics.median(ours):.2f}"
    if ours is memory:
        return median
    added = statistics.median(mine - base for mine, base in zip(ours, memory, strict=True))
    return f"{median} (+{added:.2f})"


def _shown(figures: Figures, sum_up: Callable[[Figures], float], form: str) -> str:
    return format(sum_up(figures), form) if figures else ""


SECTION = Section(
    name="http",
    title="The service over HTTP: in memory, and on each store",
    timed=(
        "Wall time, seen by one process of clients. Submit and read: one request after another on one connection, in "
        "brackets what the store adds, the median of the rounds. Answers a second: each client sends a submit, then "
        "the signal that completes it; all at one worker, or half at each of two. Wake-up: from a signal at one worker "
        "to the answer of a blocking read of the key at another, nothing else running; in memory at the same one. "
        "Expiry: from the submission plus the timeout to the answer of a poll held for its end, at the worker "
        "that took it; then at another one, after that was killed before the first timeout. Ready: from the start of "
        "a process to /readyz 200, with the entries of the pending operations to fold, then from a checkpoint."
    ),
    lines=lines,
    heading=f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}",
)

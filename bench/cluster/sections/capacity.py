"""How many changes a second one, two and four workers take together, on each store that several share."""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from bench.cluster.deployment import Deployment, deployed
from bench.cluster.measures import answers_per_s, idle_ms
from bench.cluster.sections.http import Cells
from bench.cluster.settings import ClusterSettings
from bench.cluster.stores import NotInstalled
from bench.measure.line import Skipped
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section

__all__ = ["SECTION"]

STORES: Final = ("SQLite, `always`", "Postgres")
WORKERS: Final = (1, 2, 4)
COLUMNS: Final = ("changes/s", *(f"{number} worker{'s' * (number > 1)}" for number in WORKERS))


def lines(settings: ClusterSettings) -> Iterator[Row]:
    """A row for each store that can be kept here."""
    for name in STORES:
        with ExitStack() as stack:
            try:
                # A store for each number: what waits for its turn reads no entries meanwhile.
                deployments = {number: stack.enter_context(deployed(name)) for number in WORKERS}
            except NotInstalled as missing:
                yield Skipped(str(missing))
                continue
            readings = run_on(UVLOOP, _read_all(deployments, settings))
        yield Cells((name, *_cells(readings)))


async def _read_all(deployments: dict[int, Deployment], settings: ClusterSettings) -> dict[int, list[float]]:
    readings = {number: list[float]() for number in deployments}
    try:
        for number, deployment in deployments.items():
            for _ in range(number):
                await deployment.add()
            await idle_ms(deployment, settings.requests // 4)  # a warm-up
        for _ in range(settings.rounds):
            for number, deployment in deployments.items():
                found = await answers_per_s(deployment, number, settings.clients, settings.burst_s)
                readings[number].append(found)
    finally:
        for deployment in deployments.values():
            await deployment.stop()
    return readings


def _cells(readings: dict[int, list[float]]) -> Iterator[str]:
    """Each rate, and as a share of one worker's in the same rounds."""
    one = readings[1]
    for number, rates in readings.items():
        share = statistics.median(rate / alone for rate, alone in zip(rates, one, strict=True))
        yield f"{statistics.median(rates):,.0f}" + (f" ({share:.2f})" if number > 1 else "")


SECTION = Section(
    name="capacity",
    title="Changes a second by the number of workers",
    timed=(
        "Wall time. Each client sends a submit, then the signal that completes it, and waits for both answers; clients "
        "are spread evenly over the workers. In brackets the share of what one worker takes, in the same rounds. The "
        "store, its workers and the clients share the cores named above, so on few cores this is a lower bound."
    ),
    lines=lines,
    heading=f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}",
)

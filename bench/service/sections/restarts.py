"""Clients in a loop while the service is restarted: who is refused, reset, or gets no answer."""

import asyncio
from collections import Counter
from collections.abc import Iterator

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Section
from bench.service.crowd import all_files
from bench.service.line import figure
from bench.service.restarting import WAYS
from bench.service.settings import ServiceSettings
from bench.service.visitors import FAILURES, HOLD_S, Visitors

__all__ = ["SECTION"]

BETWEEN_S = 1.0  # of load between two restarts


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """For each way, how often a client was not served."""
    for way in WAYS:
        with all_files(), collector_set(Collector.OFF):
            counts = run_on(UVLOOP, _play(settings, way))
        failed = ", ".join(f"{counts[failure]} {failure}" for failure in FAILURES)
        yield figure(
            f"{way}: requests refused, reset or lost",
            sum(counts[failure] for failure in FAILURES),
            "requests",
            target=0,
            note=f"{failed}; {counts['answered']:,} answered, of these {counts['draining']:,} 503 draining",
        )


async def _play(settings: ServiceSettings, way: str) -> Counter[str]:
    async with WAYS[way]() as service, asyncio.TaskGroup() as tasks:
        visitors = Visitors(service.port, settings.visitors)
        tasks.create_task(visitors.run())
        await asyncio.sleep(BETWEEN_S)
        for _ in range(settings.restarts):
            await service.restart()
            await asyncio.sleep(BETWEEN_S)
        visitors.end()
    return visitors.counts


SECTION = Section(
    name="restarts",
    title="Clients in a loop while the service is restarted",
    timed=(
        "Nothing is timed; requests are counted. Each client reads a key, then waits up to "
        f"{HOLD_S} s, and begins again at once, also after 503. Every second one makes a connection for each "
        "request, the others keep theirs until the service closes it. Refused and reset: a connection could not be "
        "made, or ended with a reset. Lost: it was closed without an answer to the request. Between two restarts "
        f"pass {BETWEEN_S:.0f} s."
    ),
    lines=lines,
)

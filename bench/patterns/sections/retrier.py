"""What it costs to run an attempt that succeeds at once, beside a loop of tries under `asyncio.timeout`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.measure.comparison import compare_each
from bench.measure.line import Line
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.patterns.settings import PatternSettings
from purgatory_async import Timer
from purgatory_async.patterns import Retrier

__all__ = ["SECTION"]

TOTAL = 60.0
DELAY = 5.0
ATTEMPTS = 3

Run = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]


def retrier() -> Run:
    """`Retrier.run`."""
    retrier = Retrier[str](Timer(), delay=DELAY, attempts=ATTEMPTS, total=TOTAL)
    return lambda attempt: retrier.run("key", attempt)


def by_hand() -> Run:
    """The same by hand, without keys."""

    async def run(attempt: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.timeout(TOTAL):
            for number in range(1, ATTEMPTS + 1):
                try:
                    await attempt()
                    break
                except OSError:
                    if number == ATTEMPTS:
                        raise
                await asyncio.sleep(DELAY)

    return run


def runs(way: Callable[[], Run], times: int) -> Sample:
    """Attempts one after another."""

    async def attempt() -> None:
        """Succeed."""

    async def sample() -> float:
        run = way()
        started = time.process_time_ns()
        for _ in range(times):
            await run(attempt)
        return (time.process_time_ns() - started) / times

    return sample


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector."""
    subjects = {"run an attempt / a loop of tries": [runs(way, settings.items) for way in (retrier, by_hand)]}
    return compare_each(subjects, settings)


SECTION = Section(
    name="retrier",
    title="An attempt that is repeated against a loop of tries",
    timed=(
        "Processor time per run of an attempt that succeeds at once: Retrier.run(key, attempt) with total=60 against "
        "a loop of three tries under asyncio.timeout."
    ),
    lines=lines,
)

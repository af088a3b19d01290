"""What a call costs, from its id to its reply, beside a dict of futures."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count

from bench.measure.comparison import compare_each
from bench.measure.line import Line
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.patterns.settings import PatternSettings
from purgatory_async import Purgatory
from purgatory_async.patterns import Correlator

__all__ = ["SECTION"]

TIMEOUT = 60.0
CALLERS = (1, 50)

Call = Callable[[], Awaitable[object]]


@asynccontextmanager
async def correlator() -> AsyncIterator[Call]:
    """`Correlator.request`, to a peer that answers in the next pass of the loop."""
    async with Purgatory() as purgatory:
        calls: Correlator[object] = Correlator(purgatory)
        loop = asyncio.get_running_loop()

        async def send(number: int) -> None:
            loop.call_soon(calls.resolve, number, "reply")

        yield lambda: calls.request(send, timeout=TIMEOUT)


@asynccontextmanager
async def dict_of_futures() -> AsyncIterator[Call]:
    """The same by hand."""
    loop, ids = asyncio.get_running_loop(), count(1)
    pending: dict[int, asyncio.Future[object]] = {}

    def resolve(number: int, value: object) -> None:
        future = pending.get(number)
        if future is not None and not future.done():
            future.set_result(value)

    async def send(number: int) -> None:
        loop.call_soon(resolve, number, "reply")

    async def call() -> object:
        number = next(ids)
        future = pending[number] = loop.create_future()
        try:
            async with asyncio.timeout(TIMEOUT):
                await send(number)
                return await future
        finally:
            del pending[number]

    yield call


def calls(way: Callable[[], AbstractAsyncContextManager[Call]], times: int, *, callers: int) -> Sample:
    """So many calls by so many tasks, each of which makes one after another."""

    async def sample() -> float:
        async with way() as call:

            async def one() -> None:
                for _ in range(times // callers):
                    await call()

            started = time.process_time_ns()
            await asyncio.gather(*(one() for _ in range(callers)))
            return (time.process_time_ns() - started) / times

    return sample


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector: few calls in flight, and many."""
    subjects = {
        f"a call with a timeout, by {callers} / a dict of futures under asyncio.timeout": [
            calls(way, settings.items, callers=callers) for way in (correlator, dict_of_futures)
        ]
        for callers in CALLERS
    }
    return compare_each(subjects, settings)


SECTION = Section(
    name="calls",
    title="A call and its reply against a dict of futures",
    timed=(
        "Processor time per call, from its id to its reply: Correlator.request(send, timeout=60) against a count, a "
        "dict of futures and asyncio.timeout. The peer answers in the next pass of the loop. With one call in flight "
        "each call arms the timer's wakeup, and the last one's end disarms it."
    ),
    lines=lines,
)

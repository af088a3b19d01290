"""Samples of calls that are shared, in nanoseconds of processor time for each caller.

A way to share calls is a function ``run(key, make)``; what it needs is made and closed around it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench.measure.sampling import Sample
from purgatory_async import Purgatory
from purgatory_async.patterns import SingleFlight

__all__ = ["TIMEOUT", "alone", "futures_in_a_dict", "shared", "single_flight"]

Make = Callable[[], Awaitable[object]]
Run = Callable[[str, Make], Awaitable[object]]
Way = Callable[[], AbstractAsyncContextManager[Run]]

KEY = "page"
TIMEOUT = 60.0


async def make() -> None:
    """A call that waits once."""
    await asyncio.sleep(0)


@asynccontextmanager
async def single_flight() -> AsyncIterator[Run]:
    """`SingleFlight`, with a timeout."""
    async with Purgatory() as purgatory:
        run = SingleFlight(purgatory).run
        yield lambda key, make: run(key, make, timeout=TIMEOUT)


@asynccontextmanager
async def futures_in_a_dict() -> AsyncIterator[Run]:
    """The call's task in a dict, shielded from each caller's timeout."""
    tasks: dict[str, asyncio.Future[object]] = {}

    async def run(key: str, make: Make) -> object:
        task = tasks.get(key)
        if task is None:
            task = tasks[key] = asyncio.ensure_future(make())
            task.add_done_callback(lambda _: tasks.pop(key))
        async with asyncio.timeout(TIMEOUT):
            return await asyncio.shield(task)

    yield run


def alone(way: Way, *, calls: int) -> Sample:
    """One caller after the other: nothing is shared."""

    async def sample() -> float:
        async with way() as run:
            started = time.process_time_ns()
            for _ in range(calls):
                await run(KEY, make)
            return (time.process_time_ns() - started) / calls

    return sample


def shared(way: Way, *, callers: int, calls: int) -> Sample:
    """So many tasks that come at once, repeatedly; their making and ending is part of it."""

    async def sample() -> float:
        async with way() as run:
            started = time.process_time_ns()
            for _ in range(max(1, calls // callers)):
                await asyncio.gather(*[run(KEY, make) for _ in range(callers)])
            return (time.process_time_ns() - started) / max(1, calls // callers) / callers

    return sample

"""Samples of items that change hands, in nanoseconds of processor time for each put and take.

A way to hand off is a pair of functions, put and take, of one queue; what it needs is made and closed around it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench.measure.sampling import Sample
from purgatory_async import Purgatory
from purgatory_async.patterns import HandOff

__all__ = [
    "Way",
    "bounded_hand_off",
    "bounded_queue",
    "drained",
    "hand_off",
    "idle_takers",
    "lying",
    "queue",
    "queue_under_timeout",
    "through_room",
]

Put = Callable[[object], object]
Take = Callable[[], Awaitable[object]]
Way = Callable[[], AbstractAsyncContextManager[tuple[Put, Take]]]
AsyncPut = Callable[[object], Awaitable[object]]
BoundedWay = Callable[[], AbstractAsyncContextManager[tuple[AsyncPut, Take]]]

KEY = "jobs"
TIMEOUT = 60.0
BURST = 100  # items put in one pass of the loop, given enough takers


def hand_off(timeout: float | None) -> Way:
    """`HandOff` on one key."""

    @asynccontextmanager
    async def way() -> AsyncIterator[tuple[Put, Take]]:
        async with Purgatory() as purgatory:
            jobs: HandOff[str, object] = HandOff(purgatory)
            put, take = jobs.put, jobs.take
            yield lambda item: put(KEY, item), lambda: take(KEY, timeout=timeout)

    return way


@asynccontextmanager
async def queue() -> AsyncIterator[tuple[Put, Take]]:
    """`asyncio.Queue`, waiting for ever."""
    jobs: asyncio.Queue[object] = asyncio.Queue()
    yield jobs.put_nowait, jobs.get


@asynccontextmanager
async def queue_under_timeout() -> AsyncIterator[tuple[Put, Take]]:
    """`asyncio.Queue`, each get in a block that is limited."""
    jobs: asyncio.Queue[object] = asyncio.Queue()

    async def take() -> object:
        async with asyncio.timeout(TIMEOUT):
            return await jobs.get()

    yield jobs.put_nowait, take


def bounded_hand_off(room: int) -> BoundedWay:
    """`HandOff` on one key, which waits for room."""

    @asynccontextmanager
    async def way() -> AsyncIterator[tuple[AsyncPut, Take]]:
        async with Purgatory() as purgatory:
            jobs: HandOff[str, object] = HandOff(purgatory, max_items=room)
            put, take = jobs.put_wait, jobs.take
            yield lambda item: put(KEY, item, timeout=TIMEOUT), lambda: take(KEY, timeout=TIMEOUT)

    return way


def bounded_queue(room: int) -> BoundedWay:
    """`asyncio.Queue` with a bound, each put and each get in a block that is limited."""

    @asynccontextmanager
    async def way() -> AsyncIterator[tuple[AsyncPut, Take]]:
        jobs: asyncio.Queue[object] = asyncio.Queue(room)

        async def put(item: object) -> None:
            async with asyncio.timeout(TIMEOUT):
                await jobs.put(item)

        async def take() -> object:
            async with asyncio.timeout(TIMEOUT):
                return await jobs.get()

        yield put, take

    return way


def through_room(way: BoundedWay, *, items: int) -> Sample:
    """A task that puts and one that takes, as fast as the room between them lets them."""

    async def sample() -> float:
        async with way() as (put, take):

            async def put_all() -> None:
                for item in range(items):
                    await put(item)

            async def take_all() -> None:
                for _ in range(items):
                    await take()

            started = time.process_time_ns()
            await asyncio.gather(put_all(), take_all())
            return (time.process_time_ns() - started) / items

    return sample


def lying(way: Way, *, items: int, backlog: int) -> Sample:
    """Put ``backlog`` items, then take them, repeatedly: no taker waits."""

    async def sample() -> float:
        async with way() as (put, take):
            turns = max(1, items // backlog)
            started = time.process_time_ns()
            for _ in range(turns):
                for item in range(backlog):
                    put(item)
                for _ in range(backlog):
                    await take()
            return (time.process_time_ns() - started) / turns / backlog

    return sample


def idle_takers(way: Way, *, takers: int, items: int) -> Sample:
    """Takers that come back for more are always waiting; an item wakes the oldest."""
    burst = min(takers, BURST)

    async def sample() -> float:
        taken = 0

        async def work(take: Take) -> None:
            nonlocal taken
            while True:
                await take()
                taken += 1

        async with way() as (put, take):
            tasks = [asyncio.ensure_future(work(take)) for _ in range(takers)]
            await asyncio.sleep(0)
            started = time.process_time_ns()
            for number in range(burst, items + burst, burst):
                for item in range(burst):
                    put(item)
                while taken < number:  # noqa: ASYNC110 - the pass is part of handing over
                    await asyncio.sleep(0)
            spent = time.process_time_ns() - started
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return spent / taken

    return sample


def drained(way: Way, *, takers: int) -> Sample:
    """An item for each of so many takers, who do not come back: the puts alone, they wake up after."""

    async def sample() -> float:
        async with way() as (put, take):

            async def once() -> None:
                await take()

            tasks = [asyncio.ensure_future(once()) for _ in range(takers)]
            await asyncio.sleep(0)
            started = time.process_time_ns()
            for item in range(takers):
                put(item)
            spent = time.process_time_ns() - started
            await asyncio.gather(*tasks)
        return spent / takers

    return sample

"""Samples of items that every subscriber gets, in nanoseconds of processor time for each item and subscriber.

A way to broadcast is a function to publish, and one that makes a subscriber: a function to read its next item.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench.measure.sampling import Sample
from purgatory_async import Purgatory
from purgatory_async.patterns import Broadcast

__all__ = [
    "TIMEOUT",
    "Way",
    "broadcast",
    "broadcast_next",
    "lying",
    "queues",
    "queues_under_timeout",
    "waiting",
]

Publish = Callable[[object], object]
Read = Callable[[], Awaitable[object]]
Way = Callable[[], AbstractAsyncContextManager[tuple[Publish, Callable[[], Read]]]]

TIMEOUT = 60.0
KEPT = 1024


@asynccontextmanager
async def broadcast() -> AsyncIterator[tuple[Publish, Callable[[], Read]]]:
    """`Broadcast.subscribe`, waiting for ever."""
    async with Purgatory() as purgatory:
        news: Broadcast[object] = Broadcast(purgatory, max_items=KEPT)
        yield news.publish, lambda: news.subscribe().__anext__


@asynccontextmanager
async def broadcast_next() -> AsyncIterator[tuple[Publish, Callable[[], Read]]]:
    """`Broadcast.next`, with a timeout."""
    async with Purgatory() as purgatory:
        news: Broadcast[object] = Broadcast(purgatory, max_items=KEPT)

        def subscriber() -> Read:
            after = news.newest

            async def read() -> object:
                nonlocal after
                event = await news.next(after, timeout=TIMEOUT)
                after = event.index
                return event

            return read

        yield news.publish, subscriber


@asynccontextmanager
async def queues() -> AsyncIterator[tuple[Publish, Callable[[], Read]]]:
    """A list of queues, one a subscriber, waiting for ever."""
    several: list[asyncio.Queue[object]] = []

    def publish(item: object) -> None:
        for queue in several:
            if not queue.full():  # one that is slow misses it, and never knows
                queue.put_nowait(item)

    def subscriber() -> Read:
        several.append(asyncio.Queue(KEPT))
        return several[-1].get

    yield publish, subscriber


@asynccontextmanager
async def queues_under_timeout() -> AsyncIterator[tuple[Publish, Callable[[], Read]]]:
    """A list of queues, each read in a block that is limited."""
    async with queues() as (publish, subscriber):

        def limited() -> Read:
            read = subscriber()

            async def read_in_time() -> object:
                async with asyncio.timeout(TIMEOUT):
                    return await read()

            return read_in_time

        yield publish, limited


def lying(way: Way, *, items: int, backlog: int) -> Sample:
    """Publish ``backlog`` items, then read them, repeatedly: the one subscriber never waits."""

    async def sample() -> float:
        async with way() as (publish, subscriber):
            read = subscriber()
            turns = max(1, items // backlog)
            started = time.process_time_ns()
            for _ in range(turns):
                for item in range(backlog):
                    publish(item)
                for _ in range(backlog):
                    await read()
            return (time.process_time_ns() - started) / turns / backlog

    return sample


def waiting(way: Way, *, subscribers: int, items: int) -> Sample:
    """An item in each pass of the loop, for which all subscribers wait."""

    async def sample() -> float:
        had = 0

        async def work(read: Read) -> None:
            nonlocal had
            while True:
                await read()
                had += 1

        async with way() as (publish, subscriber):
            tasks = [asyncio.ensure_future(work(subscriber())) for _ in range(subscribers)]
            await asyncio.sleep(0)
            started = time.process_time_ns()
            for number in range(max(1, items // subscribers)):
                publish(number)
                while had < (number + 1) * subscribers:  # noqa: ASYNC110 - the pass is part of it
                    await asyncio.sleep(0)
            spent = time.process_time_ns() - started
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return spent / had

    return sample

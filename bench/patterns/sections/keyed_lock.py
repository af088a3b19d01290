"""What it costs to hold a key, free and contended, beside a dict of locks with reference counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from bench.measure.comparison import compare_each
from bench.measure.line import Line
from bench.measure.sampling import Sample
from bench.measure.section import Section
from bench.patterns.settings import PatternSettings
from purgatory_async import Purgatory
from purgatory_async.patterns import KeyedLock

__all__ = ["SECTION"]

KEY = "session:7"
TIMEOUT = 60.0
HOLDERS = (1, 2, 10)  # tasks that want the key

Hold = Callable[[], AbstractAsyncContextManager[None]]
Way = Callable[[], AbstractAsyncContextManager[Hold]]


@asynccontextmanager
async def keyed_lock() -> AsyncIterator[Hold]:
    """`KeyedLock`."""
    async with Purgatory() as purgatory:
        yield partial(KeyedLock(purgatory).hold, KEY, timeout=TIMEOUT)


@asynccontextmanager
async def dict_of_locks() -> AsyncIterator[Hold]:
    """The same by hand: a lock stays in the dict as long as a task holds it or waits for it."""
    locks: dict[str, asyncio.Lock] = {}
    users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(key: str) -> AsyncIterator[None]:
        lock = locks.setdefault(key, asyncio.Lock())
        users[key] = users.get(key, 0) + 1
        try:
            async with asyncio.timeout(TIMEOUT):
                await lock.acquire()
            try:
                yield
            finally:
                lock.release()
        finally:
            users[key] -= 1
            if not users[key]:
                del users[key], locks[key]

    yield partial(hold, KEY)


def holds(way: Way, *, tasks: int, times: int) -> Sample:
    """So many tasks hold a key in turn; each is suspended once while it holds it, if others want it."""

    async def work(hold: Hold) -> None:
        for _ in range(times // tasks):
            async with hold():
                if tasks > 1:
                    await asyncio.sleep(0)

    async def sample() -> float:
        async with way() as hold:
            started = time.process_time_ns()
            await asyncio.gather(*[work(hold) for _ in range(tasks)])
            return (time.process_time_ns() - started) / times

    return sample


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector: a key that is free, and one that several want."""
    subjects = {}
    for tasks in HOLDERS:
        wanted = "free" if tasks == 1 else f"wanted by {tasks} tasks"
        subjects[f"hold a key, {wanted} / a dict of locks"] = [
            holds(way, tasks=tasks, times=settings.items) for way in (keyed_lock, dict_of_locks)
        ]
    return compare_each(subjects, settings)


SECTION = Section(
    name="keyed-lock",
    title="A keyed lock against a dict of locks with reference counts",
    timed=(
        "Processor time per hold of one key, from entering its block to the end of it: KeyedLock.hold(key, timeout=60) "
        "against a dict of asyncio.Lock and a count of users, acquired under asyncio.timeout. Free: one task, which "
        "is not suspended. Else so many tasks come back for the key, and a holder lets the loop turn once."
    ),
    lines=lines,
)

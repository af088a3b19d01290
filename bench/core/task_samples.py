"""Samples of a new task per operation: N tasks start and wait, something ends each wait, all finish.

Every body is completed in random order and does the same with its surroundings, so what differs between two
samples is the wait itself. Each returns nanoseconds of processor time per task.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager

from bench.core.workload import GatedOperation, Workload
from bench.measure.sampling import Sample
from purgatory_async import Purgatory, Timer

__all__ = [
    "awaited_operation",
    "bare_future",
    "by_hand",
    "keyed_wait",
    "new_task",
    "timer_scope",
    "under_timeout",
]


async def run_tasks(
    workload: Workload, body: Callable[[int], Coroutine[object, object, None]], end: Callable[[int], object]
) -> float:
    """Start ``body(i)`` for every i in a task of its own, call ``end(i)`` in random order, see all finish."""
    create_task = asyncio.get_running_loop().create_task
    GatedOperation.condition_holds = False
    started = time.process_time_ns()
    tasks = [create_task(body(index)) for index in range(workload.count)]
    await asyncio.sleep(0)
    GatedOperation.condition_holds = True
    for index in workload.order:
        end(index)
    for task in tasks:
        await task
    # The loops drop cancelled timers in the pass after; it is part of the price of a timer.
    await asyncio.sleep(0)
    return (time.process_time_ns() - started) / workload.count


def bare_future(workload: Workload) -> Sample:
    """The floor: a future without a timeout."""

    async def sample() -> float:
        create_future = asyncio.get_running_loop().create_future
        parked: list[asyncio.Future[None]] = [create_future()] * workload.count

        async def body(index: int) -> None:
            parked[index] = future = create_future()
            await future

        return await run_tasks(workload, body, lambda index: parked[index].set_result(None))

    return sample


def under_timeout(workload: Workload, shape: str) -> Sample:
    """The floor under ``asyncio.timeout``."""
    return limited(workload, shape, lambda: asyncio.timeout)


def timer_scope(workload: Workload, shape: str) -> Sample:
    """The floor under `Timer.timeout`."""
    return limited(workload, shape, lambda: Timer().timeout)


def limited(
    workload: Workload,
    shape: str,
    make_limit: Callable[[], Callable[[float], AbstractAsyncContextManager[object]]],
) -> Sample:
    """The floor under a limit on its time."""
    timeouts = workload.timeouts(shape)

    async def sample() -> float:
        create_future = asyncio.get_running_loop().create_future
        parked: list[asyncio.Future[None]] = [create_future()] * workload.count
        limit = make_limit()

        async def body(index: int) -> None:
            parked[index] = future = create_future()
            async with limit(timeouts[index]):
                await future

        return await run_tasks(workload, body, lambda index: parked[index].set_result(None))

    return sample


def by_hand(workload: Workload, shape: str) -> Sample:
    """The floor with ``call_later`` and ``handle.cancel()``, as one writes it without a library."""
    timeouts = workload.timeouts(shape)

    def expire(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_exception(TimeoutError())

    async def sample() -> float:
        loop = asyncio.get_running_loop()
        create_future, call_later = loop.create_future, loop.call_later
        parked: list[asyncio.Future[None]] = [create_future()] * workload.count

        async def body(index: int) -> None:
            parked[index] = future = create_future()
            handle = call_later(timeouts[index], expire, future)
            try:
                await future
            finally:
                handle.cancel()

        return await run_tasks(workload, body, lambda index: parked[index].set_result(None))

    return sample


def keyed_wait(workload: Workload, shape: str) -> Sample:
    """`Purgatory.wait` on a key of its own, ended by `complete_for_key`."""
    keys, timeouts = workload.keys, workload.timeouts(shape)

    async def sample() -> float:
        parked: list[str | None] = [None] * workload.count
        async with Purgatory() as purgatory:
            wait, complete_for_key = purgatory.wait, purgatory.complete_for_key

            async def body(index: int) -> None:
                parked[index] = key = keys[index]
                await wait(key, timeout=timeouts[index])

            return await run_tasks(workload, body, lambda index: complete_for_key(keys[index]))

    return sample


def awaited_operation(workload: Workload, shape: str) -> Sample:
    """A subclassed operation: made, watched on a key of its own, awaited; ended by a check of its key."""
    keys, timeouts = workload.keys, workload.timeouts(shape)

    async def sample() -> float:
        parked: list[GatedOperation | None] = [None] * workload.count
        async with Purgatory() as purgatory:
            watch, check = purgatory.try_complete_else_watch, purgatory.check_and_complete

            async def body(index: int) -> None:
                parked[index] = operation = GatedOperation(timeouts[index])
                if not watch(operation, (keys[index],)):
                    await operation

            return await run_tasks(workload, body, lambda index: check(keys[index]))

    return sample


def new_task(workload: Workload) -> Sample:
    """One new task and nothing else: create, start, await a future, be woken, finish."""

    async def wait_for(future: asyncio.Future[None]) -> None:
        await future

    async def sample() -> float:
        loop = asyncio.get_running_loop()
        create_future, create_task = loop.create_future, loop.create_task
        started = time.process_time_ns()
        futures = [create_future() for _ in range(workload.count)]
        tasks = [create_task(wait_for(future)) for future in futures]
        await asyncio.sleep(0)
        for index in workload.order:
            futures[index].set_result(None)
        await asyncio.sleep(0)
        spent = time.process_time_ns() - started
        unfinished = sum(not task.done() for task in tasks)
        assert unfinished == 0, f"{unfinished} tasks have not finished"
        return spent / workload.count

    return sample

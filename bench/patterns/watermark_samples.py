"""Samples of waiting until a number reaches a value: the watermark, and operations on one key of a purgatory.

On both sides every waiter is a task, waits for a value of its own, and entered in random order. What an advance
does before it returns is timed; the tasks that it woke run after the clock has stopped.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol, Self

from bench.measure.sampling import Sample
from purgatory_async import DelayedOperation, Purgatory

__all__ = ["OneKey", "advance", "begin", "begin_on_futures"]

TIMEOUT = 600.0
WOKEN_IN_A_PASS = 256


class Mark(Protocol):
    """A number that grows, and those who wait for it."""

    async def reach(self, value: int, timeout: float | None = None) -> object:
        """Wait until it is at ``value`` or above."""

    def advance(self, value: int) -> int:
        """Move it, and wake the waiters whose value it has reached; returns how many."""

    async def __aenter__(self) -> Self:
        """Begin."""

    async def __aexit__(self, *exc_info: object) -> None:
        """Close."""


class OneKey:
    """The same without the pattern: an operation for each waiter, all on one key, each asked on every advance."""

    def __init__(self) -> None:
        self.value = 0
        self.purgatory = Purgatory()

    async def reach(self, value: int, timeout: float | None = None) -> int:
        """Watch, and await."""
        operation = Reach(self, value, timeout)
        if not self.purgatory.try_complete_else_watch(operation, ("mark",)):
            await operation
        return self.value

    def advance(self, value: int) -> int:
        """Ask them all."""
        self.value = value
        return self.purgatory.check_and_complete("mark")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.purgatory.close()


class Reach(DelayedOperation[None]):
    """Complete when the mark stands at the value or above."""

    __slots__ = ("mark", "value")

    def __init__(self, mark: OneKey, value: int, timeout: float | None) -> None:
        super().__init__(timeout)
        self.mark = mark
        self.value = value

    def try_complete(self) -> bool:
        """Compare."""
        return self.mark.value >= self.value and self.force_complete()


def advance(make: Callable[[], Mark], *, waiters: int, step: int, times: int, seed: int) -> Sample:
    """Microseconds for each of so many advances, ``step`` waiters woken by each."""

    async def sample() -> float:
        spent = 0
        async with make() as mark:
            tasks = await _entered(mark, waiters, seed)
            for number in range(1, times + 1):
                started = time.process_time_ns()
                released = mark.advance(number * step)
                spent += time.process_time_ns() - started
                assert released == step, f"{released} were woken by a step of {step}"
                for _ in range(2 + step // WOKEN_IN_A_PASS):
                    await asyncio.sleep(0)
            mark.advance(waiters)
            await asyncio.gather(*tasks)
        return spent / times / 1e3

    return sample


def begin(make: Callable[[], Mark], *, waiters: int, seed: int) -> Sample:
    """Nanoseconds for each new task to begin its wait."""

    async def sample() -> float:
        async with make() as mark:
            started = time.process_time_ns()
            tasks = await _entered(mark, waiters, seed)
            spent = time.process_time_ns() - started
            mark.advance(waiters)
            await asyncio.gather(*tasks)
        return spent / waiters

    return sample


def begin_on_futures(*, waiters: int) -> Sample:
    """The floor: tasks that begin to wait for a future each."""

    async def sample() -> float:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[None]] = []

        async def body() -> None:
            future = loop.create_future()
            futures.append(future)
            await future

        started = time.process_time_ns()
        tasks = [loop.create_task(body()) for _ in range(waiters)]
        await asyncio.sleep(0)
        spent = time.process_time_ns() - started
        for future in futures:
            future.set_result(None)
        await asyncio.gather(*tasks)
        return spent / waiters

    return sample


async def _entered(mark: Mark, waiters: int, seed: int) -> list[asyncio.Task[object]]:
    """A task for each value up to the number of waiters, all waiting."""
    create_task = asyncio.get_running_loop().create_task
    values = list(range(1, waiters + 1))
    random.Random(seed).shuffle(values)
    tasks = [create_task(mark.reach(value, TIMEOUT)) for value in values]
    await asyncio.sleep(0)
    return tasks

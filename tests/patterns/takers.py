"""Takers for tests: tasks that take one item and write it down, and the ways in which tasks are cancelled.

A way runs a coroutine so that it can be cancelled from outside, by `cancel`, a plain function. Asking is not
cancelling: the task hears of it ``lead`` passes of the loop later.
"""

import asyncio
from contextlib import suppress

import anyio
import pytest

from purgatory_async import PurgatoryError
from purgatory_async.patterns import HandOff
from purgatory_async.testing import settle


def after(passes, call, *args):
    """Call something so many passes of the loop from now; in one pass, what was asked for first comes first."""
    if passes:
        asyncio.get_running_loop().call_soon(after, passes - 1, call, *args)
    else:
        call(*args)


async def let_pass(passes):
    """Let the loop make so many passes; `settle` cannot see what `after` has in store."""
    for _ in range(passes):
        await asyncio.sleep(0)


class ByTaskCancel:
    lead = 0

    def __init__(self):
        self.over = False  # a taker that is over cannot be cancelled

    async def run(self, coroutine):
        """Run the coroutine; its cancellation stays inside."""
        try:
            with suppress(asyncio.CancelledError):
                await self.guard(coroutine)
        finally:
            self.over = True

    def cancel(self):
        if not self.over:
            self.cancel_guarded()

    async def guard(self, coroutine):
        self.task = asyncio.current_task()
        await coroutine

    def cancel_guarded(self):
        self.task.cancel()


class ByCancellingTwice(ByTaskCancel):
    def cancel_guarded(self):
        self.task.cancel()
        asyncio.get_running_loop().call_soon(self.task.cancel)


class ByAsyncioTimeout(ByTaskCancel):
    lead = 1

    async def guard(self, coroutine):
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as self.limit:
                await coroutine

    def cancel_guarded(self):
        self.limit.reschedule(0)


class ByTaskGroup(ByTaskCancel):
    lead = 2

    async def guard(self, coroutine):
        self.failure = asyncio.get_running_loop().create_future()
        with suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                sibling = group.create_task(self.fail())
                group.create_task(coroutine).add_done_callback(lambda _: sibling.cancel())

    async def fail(self):
        await self.failure
        raise LookupError

    def cancel_guarded(self):
        if not self.failure.done():
            self.failure.set_result(None)


class ByAnyioScope(ByTaskCancel):
    async def guard(self, coroutine):
        with anyio.CancelScope() as self.scope:
            await coroutine

    def cancel_guarded(self):
        self.scope.cancel()


class ByAnyioDeadline(ByAnyioScope):
    async def guard(self, coroutine):
        with anyio.move_on_after(3600) as self.scope:
            await coroutine

    def cancel_guarded(self):
        self.scope.deadline = 0


WAYS = (ByTaskCancel, ByCancellingTwice, ByAsyncioTimeout, ByTaskGroup, ByAnyioScope, ByAnyioDeadline)


each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


class Taker:
    """A task that takes one item.

    Args:
        jobs: From where.
        *keys: From which queues.
        timeout: As for `HandOff.take`.
        way: How it can be cancelled.
    """

    def __init__(self, jobs: HandOff, *keys, timeout=None, way=ByTaskCancel):
        self.got = None  # the pair, or the name of the exception
        self._way = way()
        self.lead = way.lead
        self.task = asyncio.create_task(self._way.run(self._take(jobs, keys, timeout)))

    async def _take(self, jobs, keys, timeout):
        try:
            self.got = await jobs.take(*keys, timeout=timeout)
        except asyncio.CancelledError:
            self.got = "CancelledError"
            raise
        except (PurgatoryError, ConnectionError) as ended:
            self.got = type(ended).__name__

    def cancel(self):
        """Ask for its cancellation."""
        self._way.cancel()


async def takers(jobs, number, *keys, **options):
    """So many takers, oldest first, all of them waiting."""
    several = [Taker(jobs, *keys, **options) for _ in range(number)]
    await settle()
    return several

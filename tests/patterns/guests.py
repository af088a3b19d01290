"""Tasks that wait for a pattern, and are cancelled in one of the ways of practice at an exact point of a pass."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from typing import Any, TypeVar

import anyio
import pytest

Event = Callable[[], object]
T = TypeVar("T")
PATIENCE = 1_000  # passes of the loop


class Guest:
    """A task that waits; cancelled by `asyncio.Task.cancel`.

    Args:
        coroutine: What it awaits.
    """

    reached_late = True
    """Whether a cancellation still reaches it in the pass in which its wait has ended."""

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self.task = asyncio.create_task(self._stay(coroutine))

    async def _stay(self, coroutine: Coroutine[Any, Any, object]) -> object:
        return await coroutine

    def cancel(self) -> None:
        """Cancel it, in this pass of the loop."""
        self.task.cancel()

    def cancel_before(self, event: Event) -> None:
        """Cancel it, and let something happen in the same pass, before its task can know."""
        self.cancel()
        event()

    def cancel_after(self, event: Event) -> None:
        """Let something happen, and cancel it in the same pass, before its task can know."""
        event()
        self.cancel()

    async def end(self) -> object:
        """What it returned, ``"cancelled"``, or the exception that it got; it must be about to end, or have ended."""
        for _ in range(PATIENCE):  # not `settle`, which looks at every task there is
            if self.task.done():
                break
            await asyncio.sleep(0)
        else:
            self.task.cancel()
            raise AssertionError(f"{self.task!r} waits for something that is not going to come")
        (ended,) = await asyncio.gather(self.task, return_exceptions=True)
        return "cancelled" if self._was_cancelled(ended) else ended

    def _was_cancelled(self, ended: object) -> bool:
        return isinstance(ended, asyncio.CancelledError)


class GuestWithTimeout(Guest):
    """Cancelled by `asyncio.timeout`, which takes until the loop's next pass."""

    async def _stay(self, coroutine: Coroutine[Any, Any, object]) -> object:
        self._limit = asyncio.timeout(None)
        async with self._limit:
            return await coroutine

    def cancel(self) -> None:
        self._limit.reschedule(0)

    def cancel_before(self, event: Event) -> None:
        self.cancel()
        asyncio.get_running_loop().call_soon(event)

    def cancel_after(self, event: Event) -> None:
        asyncio.get_running_loop().call_soon(event)
        self.cancel()

    def _was_cancelled(self, ended: object) -> bool:
        return type(ended) is TimeoutError


class GuestWithScope(Guest):
    """Cancelled by `anyio.move_on_after`, which leaves alone whom it finds woken already."""

    reached_late = False

    async def _stay(self, coroutine: Coroutine[Any, Any, object]) -> object:
        with anyio.move_on_after(inf) as self._scope:
            return await coroutine
        return self._scope

    def cancel(self) -> None:
        self._scope.deadline = -inf

    def _was_cancelled(self, ended: object) -> bool:
        return ended is self._scope and self._scope.cancelled_caught


each_way = pytest.mark.parametrize(
    "guest",
    [
        pytest.param(Guest, id="Task.cancel"),
        pytest.param(GuestWithTimeout, id="asyncio.timeout"),
        pytest.param(GuestWithScope, id="anyio.move_on_after"),
    ],
)


def after_passes(passes: int, event: Event) -> None:
    """Let something happen so many passes of the loop from now, at least one."""
    loop = asyncio.get_running_loop()
    if passes > 1:
        loop.call_soon(after_passes, passes - 1, event)
    else:
        loop.call_soon(event)


async def awaiting(awaitable: Awaitable[T]) -> T:
    """A coroutine, for a task, that awaits something else."""
    return await awaitable

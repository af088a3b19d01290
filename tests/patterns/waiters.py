"""Tasks that wait, and the ways of practice in which they are cancelled, at an exact point of a pass of the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

import anyio
import pytest

from purgatory_async.testing import settle

T = TypeVar("T")
Call = Callable[..., object]
PATIENCE = 1_000  # passes of the loop


class Waiter:
    """A task that waits; cancelled by `asyncio.Task.cancel`.

    Args:
        coroutine: What it awaits.
        lazily: Whether it begins in the loop's next pass, also where tasks begin eagerly.
    """

    lead = 0
    """Asking is not cancelling: so many passes of the loop later, the task is cancelled."""
    reached_late = True
    """Whether a cancellation still reaches it in the pass in which its wait has ended."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], *, lazily: bool = False) -> None:
        self.got: Any = None  # what it returned, ``"cancelled"``, or the exception that it got
        self.task = (asyncio.Task if lazily else asyncio.create_task)(self._run(coroutine))

    @property
    def done(self) -> bool:
        """Whether its task has ended."""
        return self.task.done()

    def cancel(self) -> None:
        """Ask for its cancellation, which stays inside of its task; one that is over cannot be cancelled."""
        if not self.task.done():
            self._cancel()

    def cancel_before(self, call: Call) -> None:
        """Cancel it, and call something in the same pass, before its task can know."""
        self.cancel()
        after(self.lead, call)

    def cancel_after(self, call: Call) -> None:
        """Call something, and cancel it in the same pass, before its task can know."""
        after(self.lead, call)
        self.cancel()

    async def end(self) -> Any:
        """What it `got`; it must be about to end, or have ended."""
        for _ in range(PATIENCE):  # not `settle`, which looks at every task there is
            if self.task.done():
                break
            await asyncio.sleep(0)
        else:
            self.task.cancel()
            raise AssertionError(f"{self.task!r} waits for something that is not going to come")
        await asyncio.gather(self.task, return_exceptions=True)
        return self.got

    async def _run(self, coroutine: Coroutine[Any, Any, object]) -> None:
        with suppress(asyncio.CancelledError):
            await self._guard(self._noting(coroutine))

    async def _noting(self, coroutine: Coroutine[Any, Any, object]) -> None:
        try:
            self.got = await coroutine
        except asyncio.CancelledError:
            self.got = "cancelled"
            raise
        except Exception as ended:  # noqa: BLE001 - noted
            self.got = ended

    async def _guard(self, coroutine: Coroutine[Any, Any, object]) -> None:
        await coroutine

    def _cancel(self) -> None:
        self.task.cancel()


class CancelledTwice(Waiter):
    def _cancel(self) -> None:
        self.task.cancel()
        asyncio.get_running_loop().call_soon(self.task.cancel)


class ByAsyncioTimeout(Waiter):
    lead = 1

    async def _guard(self, coroutine: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as self.limit:
                await coroutine

    def _cancel(self) -> None:
        self.limit.reschedule(0)


class ByTaskGroup(Waiter):
    lead = 2

    async def _guard(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self.failure = asyncio.get_running_loop().create_future()
        with suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                sibling = group.create_task(self._fail())
                group.create_task(coroutine).add_done_callback(lambda _: sibling.cancel())

    async def _fail(self) -> None:
        await self.failure
        raise LookupError

    def _cancel(self) -> None:
        if not self.failure.done():
            self.failure.set_result(None)


class ByAnyioScope(Waiter):
    reached_late = False

    async def _guard(self, coroutine: Coroutine[Any, Any, object]) -> None:
        with anyio.CancelScope() as self.scope:
            await coroutine

    def _cancel(self) -> None:
        self.scope.cancel()


class ByAnyioDeadline(ByAnyioScope):
    async def _guard(self, coroutine: Coroutine[Any, Any, object]) -> None:
        with anyio.move_on_after(inf) as self.scope:
            await coroutine

    def _cancel(self) -> None:
        self.scope.deadline = -inf


WAYS = (Waiter, CancelledTwice, ByAsyncioTimeout, ByTaskGroup, ByAnyioScope, ByAnyioDeadline)
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


async def waiting(*coroutines: Coroutine[Any, Any, object], way: type[Waiter] = Waiter) -> list[Waiter]:
    """Tasks that wait, oldest first, all of them in their wait."""
    waiters = [way(coroutine) for coroutine in coroutines]
    await settle()
    return waiters


async def ends(waiters: Iterable[Waiter]) -> list[Any]:
    """What each of them got; all of them must be about to end."""
    return [await waiter.end() for waiter in waiters]


def after(passes: int, call: Call, *args: object) -> None:
    """Call something so many passes of the loop from now; in one pass, what was asked for first comes first."""
    if passes:
        asyncio.get_running_loop().call_soon(after, passes - 1, call, *args)
    else:
        call(*args)


async def let_pass(passes: int) -> None:
    """Let the loop make so many passes; `settle` cannot see what `after` has in store."""
    for _ in range(passes):
        await asyncio.sleep(0)


async def awaiting(awaitable: Awaitable[T]) -> T:
    """A coroutine, for a task, that awaits something else."""
    return await awaitable

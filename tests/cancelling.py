"""The ways in which tasks are cancelled in practice. Each takes a coroutine that waits, and cancels it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from purgatory_async.testing import settle

Waiting = Coroutine[Any, Any, object]
Way = Callable[[Waiting], Coroutine[Any, Any, None]]


async def by_task_cancel(coroutine: Waiting) -> None:
    task = asyncio.create_task(coroutine)
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_cancelling_twice(coroutine: Waiting) -> None:
    task = asyncio.create_task(coroutine)
    await settle()
    task.cancel()
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_asyncio_timeout(coroutine: Waiting) -> None:
    with pytest.raises(TimeoutError):  # noqa: PT012 - the timeout is what raises
        async with asyncio.timeout(None) as limit:
            asyncio.get_running_loop().call_soon(limit.reschedule, 0)
            await coroutine


async def by_task_group(coroutine: Waiting) -> None:
    async def fail() -> None:
        await settle()
        raise LookupError

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the group is what raises
        async with asyncio.TaskGroup() as group:
            group.create_task(coroutine)
            group.create_task(fail())
    assert [type(failure) for failure in caught.value.exceptions] == [LookupError]


async def by_anyio_cancel_scope(coroutine: Waiting) -> None:
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await coroutine
    assert scope.cancelled_caught


WAYS = (by_task_cancel, by_cancelling_twice, by_asyncio_timeout, by_task_group, by_anyio_cancel_scope)
each_way = pytest.mark.parametrize("cancel", WAYS, ids=lambda way: way.__name__)

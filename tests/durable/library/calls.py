"""How tests call verbs in the `VirtualTimeLoop` or in real time: calls that wait, are refused or have no end."""

import asyncio
from contextlib import suppress

import pytest

from purgatory_async.client import RequestRefused

PATIENCE_S = 60.0


async def start(call):
    """Start a call that waits, and let it come as far as it can."""
    task = asyncio.create_task(call)
    await later(0.2)
    assert not task.done(), f"the call must wait, got {task}"
    return task


async def later(seconds):
    """Let time pass; in the `VirtualTimeLoop` it jumps."""
    await asyncio.sleep(seconds)


async def until(holds):
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - it says nothing when it changes
            await asyncio.sleep(0.01)


async def cancelled(task):
    """Cancel a task, and wait until it has ended so."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def refused(call, status, slug):
    """The refusal of a call, which has a status and a slug."""
    with pytest.raises(RequestRefused) as caught:
        await call
    assert (caught.value.status, caught.value.slug) == (status, slug), str(caught.value)
    return caught.value


async def every(listed):
    """All that a list has."""
    return [each async for each in listed]


async def first(iterator, count):
    """The next elements of an iterator without end."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(iterator) for _ in range(count)]

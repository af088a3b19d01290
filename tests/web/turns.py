"""Things that happen a given number of turns of the loop from now."""

import asyncio

from purgatory_async.testing import settle


def after_passes(passes, call):
    """Schedule a call this many passes of the loop from now."""
    loop = asyncio.get_running_loop()
    if passes:
        loop.call_soon(after_passes, passes - 1, call)
    else:
        call()


async def passes(number):
    """Let the loop make this many passes: `settle` does not see callbacks without a task."""
    for _ in range(number):
        await asyncio.sleep(0)


async def end_of(task):
    """What a task returns or raises that must end without time passing; a test that is wrong fails, not hangs."""
    await settle()
    assert task.done(), f"it still waits: {task!r}"
    return await task

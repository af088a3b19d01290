"""Let everything that can run, run."""

import asyncio
from typing import Final

from purgatory_async.loop.wakeups import dispatcher_of

__all__ = ["settle"]

_MOST_PASSES: Final = 10_000
# uvloop hides its ready callbacks; one that only starts another, without a task, is seen a pass later.
_QUIET_PASSES: Final = 3


async def settle() -> None:
    """Let the loop run until no task is ready and the library has no slice queued.

    Raises:
        RuntimeError: It did not become quiet within 10 000 passes: something keeps waking itself, or another task
            settles at the same time, and each takes the other for busy.
    """
    loop = asyncio.get_running_loop()
    dispatcher = dispatcher_of(loop)
    quiet = 0
    for _ in range(_MOST_PASSES):
        await asyncio.sleep(0)
        quiet = 0 if dispatcher.busy or _ready(loop) else quiet + 1
        if quiet == _QUIET_PASSES:
            return
    raise RuntimeError(
        f"the loop did not settle in {_MOST_PASSES} passes; still ready: {_ready_tasks(loop)!r} "
        "(two tasks that settle at once take each other for busy)"
    )


def _ready(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a callback or a task other than this one wants to run."""
    callbacks = getattr(loop, "_ready", None)
    if callbacks is not None and hasattr(callbacks, "__len__"):
        return len(callbacks) > 0
    return bool(_ready_tasks(loop))


def _ready_tasks(loop: asyncio.AbstractEventLoop) -> "list[asyncio.Task[object]]":
    """Tasks that wait for nothing, or for something that is done."""
    current = asyncio.current_task(loop)
    waiting = [
        (task, getattr(task, "_fut_waiter", None)) for task in asyncio.all_tasks(loop) if task is not current
    ]
    return [task for task, waiter in waiting if waiter is None or waiter.done()]

"""Let a test's tasks run until quiet, and check that its purgatory is empty."""

import asyncio
from typing import Any, Final

from purgatory_async import DelayedOperation
from purgatory_async.loop.purgatory import Purgatory
from purgatory_async.loop.wakeups import dispatcher_of

_MOST_PASSES: Final = 10_000
# uvloop hides its ready callbacks; one that only starts another, without a task, is seen a pass later.
_QUIET_PASSES: Final = 3


def assert_clean(purgatory: Purgatory) -> None:
    """Assert that no operation, watcher, key, timer entry or wakeup of a purgatory is left.

    Raises:
        AssertionError: Something is left; the message names it and its keys, and the tasks that wait for it.
    """
    pending = list(purgatory.operations())
    assert not pending, (
        f"{len(pending)} operations are still pending in {purgatory.name!r}: "
        + "; ".join(map(_described, pending[:10]))
        + (" ..." if len(pending) > 10 else "")  # noqa: PLR2004 - a screenful
    )
    purgatory.check_invariants()
    assert purgatory.watched == 0, f"{purgatory.watched} watchers are left in {purgatory.name!r}"
    assert purgatory.keys == 0, f"{purgatory.keys} keys are left in {purgatory.name!r}"
    timer = purgatory.timer
    timer.check_invariants()
    if purgatory._owns_timer:
        assert timer.pending == 0, f"{timer.pending} timer entries are left in {timer!r}"
    if timer.pending == 0:
        assert timer.next_deadline is None, (
            f"an idle timer has something to do at {timer.next_deadline} s: {timer!r}"
        )
        assert timer._wakeup is None, f"an idle timer has a wakeup armed: {timer!r}"


async def settle() -> None:
    """Let the loop run until no task is ready and the library has no slice queued.

    Raises:
        RuntimeError: The loop was not quiet within 10 000 passes: a task keeps waking itself, or two tasks settle at
            the same time and each sees the other as busy.
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
        "(two tasks that settle at once see each other as busy)"
    )


def _described(operation: DelayedOperation[Any]) -> str:
    """Name an operation, and the tasks that wait for it."""
    one_or_more = operation._waiters
    waiters: set[object] = set(one_or_more) if isinstance(one_or_more, dict) else {one_or_more}
    loops = {waiter.get_loop() for waiter in waiters if isinstance(waiter, asyncio.Future)}
    tasks = (task for loop in loops for task in asyncio.all_tasks(loop))
    names = [repr(task) for task in tasks if getattr(task, "_fut_waiter", None) in waiters]
    return f"{operation!r}" + (f", awaited by {', '.join(names)}" if names else "")


def _ready(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a callback or another task is ready to run."""
    callbacks = getattr(loop, "_ready", None)
    if callbacks is not None and hasattr(callbacks, "__len__"):
        return len(callbacks) > 0
    return bool(_ready_tasks(loop))


def _ready_tasks(loop: asyncio.AbstractEventLoop) -> "list[asyncio.Task[object]]":
    """Return the other tasks that wait for nothing, or for a future that is done."""
    current = asyncio.current_task(loop)
    waiting = [
        (task, getattr(task, "_fut_waiter", None)) for task in asyncio.all_tasks(loop) if task is not current
    ]
    return [task for task, waiter in waiting if waiter is None or waiter.done()]

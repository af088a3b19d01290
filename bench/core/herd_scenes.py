"""Scenes of a herd: many wait for one event or one instant, it comes, and a watch looks at every pass."""

import asyncio
from collections.abc import Awaitable, Callable

from bench.core.workload import CallbackOperation, GatedOperation
from bench.measure.stall import StallWatch
from purgatory_async import OperationExpired, Purgatory, Timer

__all__ = ["DEADLINE_SCENES", "EVENT_SCENES", "Scene"]

Scene = Callable[[int, StallWatch], Awaitable[None]]

KEY = "the one key"


async def waits_on_one_key(count: int, watch: StallWatch) -> None:
    """Every task in a `wait` on one key; one `complete_for_key`."""
    async with Purgatory() as purgatory:
        tasks = [asyncio.ensure_future(purgatory.wait(KEY, timeout=600.0)) for _ in range(count)]
        await settle()
        purgatory.complete_for_key(KEY)
        await watch_until_done(tasks, watch)


async def operations_on_one_key(count: int, watch: StallWatch) -> None:
    """Every task awaits an operation of its own; one `check_and_complete`."""
    GatedOperation.condition_holds = False
    async with Purgatory() as purgatory:

        async def wait_for_one() -> None:
            operation = GatedOperation(600.0)
            purgatory.try_complete_else_watch(operation, (KEY,))
            await operation

        tasks = [asyncio.ensure_future(wait_for_one()) for _ in range(count)]
        await settle()
        GatedOperation.condition_holds = True
        purgatory.check_and_complete(KEY)
        await watch_until_done(tasks, watch)


async def waiters_of_one_operation(count: int, watch: StallWatch) -> None:
    """Every task awaits the same operation."""
    async with Purgatory() as purgatory:
        operation = CallbackOperation(600.0)
        purgatory.try_complete_else_watch(operation, (KEY,))

        async def wait_for_it() -> None:
            await operation

        tasks = [asyncio.ensure_future(wait_for_it()) for _ in range(count)]
        await settle()
        operation.force_complete()
        await watch_until_done(tasks, watch)


async def bare_futures(count: int, watch: StallWatch) -> None:
    """Every task awaits a future of its own; all are set in one go."""
    create_future = asyncio.get_running_loop().create_future
    futures = [create_future() for _ in range(count)]

    async def wait_for(future: asyncio.Future[None]) -> None:
        await future

    tasks = [asyncio.ensure_future(wait_for(future)) for future in futures]
    await settle()
    for future in futures:
        future.set_result(None)
    await watch_until_done(tasks, watch)


async def operations_at_one_instant(count: int, watch: StallWatch) -> None:
    """Callback operations with one common deadline."""
    async with Purgatory() as purgatory:
        when = purgatory.timer.time() + seconds_to_enter(count)
        for number in range(count):
            operation = CallbackOperation(when - purgatory.timer.time())
            purgatory.try_complete_else_watch(operation, (number,))
        assert purgatory.pending == count, f"{count - purgatory.pending} expired before all had entered"
        await sleep_until_just_before(when, purgatory.timer.time)
        while purgatory.pending:
            await watch.watch_pass()
        await watch_later_passes(watch)


async def waits_at_one_instant(count: int, watch: StallWatch) -> None:
    """Every task in a `wait` that runs into one common deadline."""
    async with Purgatory() as purgatory:
        when = purgatory.timer.time() + seconds_to_enter(count, microseconds=50)

        async def wait_for(key: int) -> None:
            try:  # noqa: SIM105 - suppress() would be half of what is watched
                await purgatory.wait(key, timeout=when - purgatory.timer.time())
            except OperationExpired:
                pass

        tasks = [asyncio.ensure_future(wait_for(number)) for number in range(count)]
        await settle()
        assert purgatory.pending == count, f"{count - purgatory.pending} expired before all had entered"
        await sleep_until_just_before(when, purgatory.timer.time)
        await watch_until_done(tasks, watch)


async def timers_at_one_instant(count: int, watch: StallWatch) -> None:
    """Bare timers of ours with one common deadline."""
    timer = Timer()
    await call_at_one_instant(count, watch, timer.time, timer.call_at)
    timer.close()


async def loop_timers_at_one_instant(count: int, watch: StallWatch) -> None:
    """Bare timers of the loop with one common deadline."""
    loop = asyncio.get_running_loop()
    await call_at_one_instant(count, watch, loop.time, loop.call_at)


async def call_at_one_instant(
    count: int, watch: StallWatch, clock: Callable[[], float], call_at: Callable[..., object]
) -> None:
    """Timers with one common deadline, each counting itself off."""
    fired: list[None] = []
    when = clock() + seconds_to_enter(count)
    for _ in range(count):
        call_at(when, fired.append, None)
    assert not fired, f"{len(fired)} fired before all had entered"
    await sleep_until_just_before(when, clock)
    while len(fired) < count:
        await watch.watch_pass()
    await watch_later_passes(watch)


def seconds_to_enter(count: int, *, microseconds: float = 20) -> float:
    """Time enough to enter all at that many microseconds each, several times what it should take."""
    return 0.1 + count * microseconds * 1e-6


async def sleep_until_just_before(when: float, clock: Callable[[], float]) -> None:
    """Sleep up to 20 ms before an instant: from there on every pass is watched."""
    await asyncio.sleep(when - 0.02 - clock())


async def watch_until_done(tasks: list[asyncio.Task[None]], watch: StallWatch) -> None:
    """Watch every pass until all tasks have finished; they do in order, so the last one is asked first."""
    remaining = list(tasks)
    while remaining:
        await watch.watch_pass()
        while remaining and remaining[-1].done():
            remaining.pop()
    await watch_later_passes(watch)


async def watch_later_passes(watch: StallWatch) -> None:
    """A few passes more, for what was put off to the end."""
    for _ in range(10):
        await watch.watch_pass()


async def settle() -> None:
    """Let tasks that were just made run up to where they wait."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


# The last of each is the loop's own, which the others are shown beside.
EVENT_SCENES: dict[str, Scene] = {
    "wait, complete_for_key": waits_on_one_key,
    "operations, check_and_complete": operations_on_one_key,
    "one operation, force_complete": waiters_of_one_operation,
    "bare futures": bare_futures,
}
DEADLINE_SCENES: dict[str, Scene] = {
    "operations, one deadline": operations_at_one_instant,
    "wait, one deadline": waits_at_one_instant,
    "Timer.call_at, one instant": timers_at_one_instant,
    "loop.call_at": loop_timers_at_one_instant,
}

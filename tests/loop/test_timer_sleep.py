"""`Timer.sleep`: a task that waits on the timer's clock."""

import asyncio
import itertools
import math

import pytest

from purgatory_async import PurgatoryClosed, Timer
from purgatory_async.testing import settle
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import World

pytestmark = pytest.mark.asyncio


async def test_a_sleeper_wakes_after_its_delay(world: World) -> None:
    timer = world.timer()
    task = asyncio.create_task(timer.sleep(2.5))
    await world.run(0)
    await world.run(2.499)
    assert (task.done(), timer.pending) == (False, 1)
    await world.run(0.001)
    assert (task.done(), timer.pending, await task) == (True, 0, None)


@pytest.mark.parametrize("delay", [0, -1, -0.0], ids=str)
async def test_sleeping_for_nothing_lets_others_run_once(world: World, delay: float) -> None:
    timer, steps = world.timer(), []
    asyncio.get_running_loop().call_soon(steps.append, "others")
    await timer.sleep(delay)
    steps.append("sleeper")
    assert steps == ["others", "sleeper"]


async def test_an_infinite_sleep_ends_by_cancelling_only(world: World) -> None:
    timer = world.timer()
    task = asyncio.create_task(timer.sleep(math.inf))
    await world.run(0)
    await world.run(3_000_000_000)
    assert (task.done(), timer.pending) == (False, 1)
    task.cancel()
    await settle()
    assert (task.cancelled(), timer.pending) == (True, 0)


async def test_sleepers_wake_in_the_order_of_their_deadlines(world: World) -> None:
    timer, woken = world.timer(), []

    async def sleeper(delay: float) -> None:
        await timer.sleep(delay)
        woken.append(delay)

    tasks = [asyncio.create_task(sleeper(delay)) for delay in (3, 1, 70, 2)]
    await world.run(0)
    await world.run(100)
    assert woken == [1, 2, 3, 70]
    await asyncio.gather(*tasks)


async def test_a_sleeper_cancelled_in_its_wakeup_turn_is_cancelled(world: World) -> None:
    timer = world.timer()
    task = asyncio.create_task(timer.sleep(1))
    await settle()
    timer.call_later(1, task.cancel)
    await world.run(1)
    assert (task.cancelled(), timer.pending) == (True, 0)


async def test_closing_the_timer_wakes_sleepers_with_an_error(world: World) -> None:
    timer = world.timer()
    tasks = [asyncio.create_task(timer.sleep(delay)) for delay in (10, math.inf)]
    await settle()
    assert timer.close() == []
    await settle()
    for task, delay in zip(tasks, ("10", "inf"), strict=True):
        with pytest.raises(PurgatoryClosed, match=f"sleep of {delay}"):
            task.result()


async def test_a_sleeper_due_before_the_close_returns_normally(world: World) -> None:
    timer = world.timer()
    task = asyncio.create_task(timer.sleep(1))
    await settle()
    timer.call_later(1, timer.close)
    await world.run(1)
    assert (task.done(), task.exception()) == (True, None)


async def test_a_herd_of_sleepers_wakes_in_slices_in_order() -> None:
    clock, woken = SteppedClock(), []
    timer = Timer(clock=clock)

    async def sleeper(number: int) -> None:
        await timer.sleep(1)
        woken.append(number)

    tasks = [asyncio.create_task(sleeper(number)) for number in range(2_000)]
    await settle()
    clock.move(1)
    clock.ring()
    seen = [0]
    while len(woken) < 2_000:
        await asyncio.sleep(0)
        seen.append(len(woken))
        assert len(seen) < 2_000
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 512
    assert woken == list(range(2_000))
    await asyncio.gather(*tasks)

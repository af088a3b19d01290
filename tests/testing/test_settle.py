"""After `settle`, no task is ready and the library has no slice queued."""

import asyncio

import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.testing import ManualClock, settle

HERDS = (2_000, pytest.param(100_000, marks=pytest.mark.slow))


@pytest.mark.asyncio
async def test_a_task_that_yields_many_times_has_gone_as_far_as_it_can() -> None:
    yielded = 0

    async def yield_often() -> None:
        nonlocal yielded
        for _ in range(1_000):
            await asyncio.sleep(0)
            yielded += 1
        await asyncio.Event().wait()

    task = asyncio.create_task(yield_often())
    await settle()
    assert yielded == 1_000
    task.cancel()


@pytest.mark.asyncio
async def test_a_chain_of_callbacks_and_tasks_has_come_to_its_end() -> None:
    loop = asyncio.get_running_loop()
    reached: list[int] = []

    async def link(left: int) -> None:
        reached.append(left)
        if left:
            loop.call_soon(lambda: tasks.append(loop.create_task(link(left - 1))))

    tasks = [loop.create_task(link(50))]
    await settle()
    assert reached == list(range(50, -1, -1))


@pytest.mark.asyncio
async def test_it_does_not_wait_for_tasks_that_wait() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await settle()
    assert not task.done()
    task.cancel()


@pytest.mark.asyncio
async def test_what_a_cancelled_task_does_last_has_been_done() -> None:
    cleaned: list[bool] = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    task = asyncio.create_task(clean_up())
    await settle()
    task.cancel()
    await settle()
    assert cleaned == [True]


@pytest.mark.asyncio
@pytest.mark.parametrize("herd", HERDS, ids=lambda herd: f"{herd}")
async def test_waiters_that_are_woken_in_slices_are_all_awake(herd: int) -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    awake = 0

    async def wait() -> None:
        nonlocal awake
        await purgatory.wait("door")
        awake += 1

    tasks = [asyncio.create_task(wait()) for _ in range(herd)]
    await settle()
    assert purgatory.pending == herd
    purgatory.complete_for_key("door")
    await settle()
    assert awake == herd
    assert all(task.done() for task in tasks)


@pytest.mark.asyncio
async def test_expiries_queued_in_slices_have_all_fired() -> None:
    timer = Timer()
    fired: list[int] = []
    for number in range(2_000):
        timer.call_later(0, fired.append, number)
    await settle()
    assert fired == list(range(2_000))
    timer.close()


@pytest.mark.asyncio
async def test_an_endlessly_ready_task_is_an_error_after_a_bound() -> None:
    passes = 0

    async def spin() -> None:
        nonlocal passes
        while True:
            await asyncio.sleep(0)
            passes += 1

    task = asyncio.create_task(spin(), name="the spinning one")
    with pytest.raises(RuntimeError, match="the spinning one"):
        await settle()
    assert 1_000 < passes <= 20_000
    task.cancel()


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_it_lets_no_virtual_time_pass() -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(asyncio.sleep(1))
    await settle()
    assert loop.time() == 0.0
    await task

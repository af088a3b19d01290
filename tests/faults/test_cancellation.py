"""Cancellations and races. Each test is named by the promise that holds under its fault."""

import asyncio

import pytest

from purgatory_async import Outcome, Purgatory, Timer
from purgatory_async.testing import settle
from tests.core.recording import Recorded
from tests.loop.stepped_clock import SteppedClock

pytestmark = pytest.mark.asyncio


async def awaiting(operation) -> Outcome:
    return await operation


async def test_completed_then_cancelled_an_operation_keeps_its_result(
    purgatory,
):
    log: list[str] = []
    operation = Recorded(log)
    purgatory.try_complete_else_watch(operation, ["k"])
    task = asyncio.create_task(awaiting(operation))
    await settle()
    log.clear()
    assert purgatory.complete_for_key("k", "result") == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (operation.outcome, operation.result, log) == (Outcome.COMPLETED, "result", ["op completed"])
    assert await operation is Outcome.COMPLETED


@pytest.mark.parametrize("first", ["expiry", "completion"])
async def test_of_expiry_and_completion_in_one_tick_the_first_wins(first, purgatory, manual_clock):
    log: list[str] = []
    operation = Recorded(log, timeout=1)
    steps = [
        lambda: purgatory.try_complete_else_watch(operation, ["k"]),
        lambda: purgatory.timer.call_later(1, purgatory.complete_for_key, "k"),
    ]
    for step in steps if first == "expiry" else reversed(steps):
        step()
    log.clear()
    manual_clock.advance(1)
    if first == "expiry":
        assert (operation.outcome, log) == (Outcome.EXPIRED, ["op completed", "op expired"])
    else:
        assert (operation.outcome, log) == (Outcome.COMPLETED, ["op completed"])


async def test_completed_before_a_late_expiry_it_is_completed():
    clock = SteppedClock()
    log: list[str] = []
    async with Purgatory(timer=Timer(clock=clock)) as purgatory:
        operation = Recorded(log, timeout=1)
        purgatory.try_complete_else_watch(operation, ["k"])
        log.clear()
        clock.move(5)  # the loop was blocked past the deadline
        assert purgatory.complete_for_key("k", "late, but first") == 1
        clock.ring()
        await settle()
        assert (operation.outcome, operation.result) == (Outcome.COMPLETED, "late, but first")
        assert log == ["op completed"]


@pytest.mark.parametrize("passes", [0, 1, 2])
async def test_a_second_cancellation_finds_everything_released(passes, purgatory):
    cleaned = []

    async def careful() -> None:
        try:
            await purgatory.wait("a", "b", timeout=60)
        finally:
            cleaned.append((purgatory.pending, purgatory.watched, purgatory.timer.pending))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    task = asyncio.create_task(careful())
    await settle()
    task.cancel()
    for _ in range(passes):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [(0, 0, 0)]

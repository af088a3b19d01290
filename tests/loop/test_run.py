"""`run`: check, watch and await an operation; cancelling the task cancels the operation."""

import asyncio

import pytest

from purgatory_async import (
    DelayedOperation,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.testing import settle
from tests.core.recording import Recorded

pytestmark = pytest.mark.asyncio


async def running(purgatory, operation, *keys):
    """A task in the middle of a run."""
    task = asyncio.create_task(purgatory.run(operation, keys))
    await settle()
    return task


def complete_after(passes, operation):
    """Complete an operation this many passes of the loop from now."""
    loop = asyncio.get_running_loop()
    if passes:
        loop.call_soon(complete_after, passes - 1, operation)
    else:
        operation.force_complete()


def counts(purgatory):
    return purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending


# How it ends.


async def test_what_holds_at_once_completes_without_suspending(purgatory):
    step = purgatory.run(Recorded([], holds=lambda: True), ["a"])
    with pytest.raises(StopIteration) as ended:
        step.send(None)
    assert ended.value.value is Outcome.COMPLETED
    assert counts(purgatory) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(lambda p, clock: p.complete_for_key("b", "news"), Outcome.COMPLETED, id="completed"),
        pytest.param(lambda p, clock: clock.advance(5), Outcome.EXPIRED, id="expired"),
        pytest.param(lambda p, clock: p.cancel_for_key("a"), Outcome.CANCELLED, id="cancelled"),
        pytest.param(lambda p, clock: p.close(), Outcome.CLOSED, id="closed"),
    ],
)
async def test_it_returns_the_outcome_of_a_watched_operation(end, outcome, purgatory, manual_clock):
    operation = DelayedOperation(timeout=5)
    task = await running(purgatory, operation, "a", "b")
    assert counts(purgatory) == (1, 2, 2, 1)
    end(purgatory, manual_clock)
    assert await task is operation.outcome is outcome
    assert counts(purgatory) == (0, 0, 0, 0)


async def test_it_raises_what_the_operation_failed_with(purgatory):
    error = KeyError("lost")
    task = await running(purgatory, DelayedOperation(), "a")
    purgatory.fail_for_key("a", error)
    with pytest.raises(KeyError) as raised:
        await task
    assert raised.value is error


# Cancelling the task.


async def test_cancelling_the_task_cancels_the_operation_at_once(purgatory):
    log: list[str] = []
    operation = Recorded(log, timeout=60)
    task = await running(purgatory, operation, "a", "b")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert operation.outcome is Outcome.CANCELLED
    assert counts(purgatory) == (0, 0, 0, 0)
    assert log == ["op checked"]


async def test_every_other_awaiter_sees_the_operation_cancelled(purgatory):
    async def wait() -> Outcome:
        return await operation

    operation: DelayedOperation[None] = DelayedOperation(timeout=60)
    task = await running(purgatory, operation, "a")
    others = [asyncio.create_task(wait()) for _ in range(3)]
    await settle()
    task.cancel()
    await settle()
    assert task.cancelled()
    assert [other.result() for other in others] == [Outcome.CANCELLED] * 3


async def test_a_cancelled_other_awaiter_leaves_it_running(purgatory):
    async def wait() -> Outcome:
        return await operation

    operation: DelayedOperation[None] = DelayedOperation()
    task = await running(purgatory, operation, "a")
    other = asyncio.create_task(wait())
    await settle()
    other.cancel()
    await settle()
    assert operation.outcome is None
    operation.force_complete()
    assert await task is Outcome.COMPLETED


@pytest.mark.parametrize("end_first", [True, False], ids=["ended, then cancelled", "cancelled, then ended"])
async def test_an_outcome_of_the_same_pass_stands_when_cancelled(end_first, purgatory):
    operation: DelayedOperation[str] = DelayedOperation()
    task = await running(purgatory, operation, "a")
    if not end_first:
        task.cancel()
    assert purgatory.complete_for_key("a", "news") == 1
    if end_first:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (operation.outcome, operation.result) == (Outcome.COMPLETED, "news")


async def test_closing_the_coroutine_cancels_the_operation(purgatory):
    operation: DelayedOperation[None] = DelayedOperation(timeout=60)
    coroutine = purgatory.run(operation, ["a"])
    coroutine.send(None)
    coroutine.close()
    assert operation.outcome is Outcome.CANCELLED
    assert counts(purgatory) == (0, 0, 0, 0)


async def test_cancelled_before_its_first_step_the_operation_is_new(purgatory):
    operation: DelayedOperation[None] = DelayedOperation()
    task = asyncio.Task(purgatory.run(operation, ["a"]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert operation.outcome is None
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    operation.cancel()


# What can be wrong.


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        pytest.param([], ValueError, id="no keys"),
        pytest.param("order:42", TypeError, id="a str"),
        pytest.param([[]], TypeError, id="a key that cannot be hashed"),
    ],
)
async def test_bad_keys_are_refused_and_the_operation_stays_new(keys, error, purgatory):
    operation: DelayedOperation[None] = DelayedOperation(timeout=5)
    with pytest.raises(error):
        await purgatory.run(operation, keys)
    assert operation.outcome is None
    assert counts(purgatory) == (0, 0, 0, 0)


async def test_an_operation_that_is_pending_is_refused_and_stays(purgatory):
    operation: DelayedOperation[None] = DelayedOperation()
    purgatory.try_complete_else_watch(operation, ["a"])
    with pytest.raises(PurgatoryError):
        await purgatory.run(operation, ["b"])
    assert operation.outcome is None
    assert counts(purgatory) == (1, 1, 1, 0)
    operation.cancel()


async def test_a_full_or_closed_purgatory_runs_nothing_new(manual_clock):
    async with Purgatory(timer=Timer(clock=manual_clock), max_pending=1) as purgatory:
        first = await running(purgatory, DelayedOperation(), "a")
        with pytest.raises(PurgatoryFull):
            await purgatory.run(DelayedOperation(timeout=1), ["b"])
        assert await purgatory.run(Recorded([], holds=lambda: True), ["b"]) is Outcome.COMPLETED
        assert counts(purgatory) == (1, 1, 1, 0)
    assert await first is Outcome.CLOSED
    with pytest.raises(PurgatoryClosed):
        await purgatory.run(DelayedOperation(), ["a"])


async def test_what_the_first_check_raises_comes_out(purgatory):
    def fails() -> bool:
        raise KeyError("check")

    with pytest.raises(KeyError, match="check"):
        await purgatory.run(Recorded([], holds=fails), ["a"])
    assert counts(purgatory) == (0, 0, 0, 0)

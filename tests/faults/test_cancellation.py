"""Cancellations and races. Each test is named by the promise that holds under its fault."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, OperationCancelled, OperationExpired, Outcome, Purgatory, Timer
from purgatory_async.testing import assert_clean, cancel_sweep, settle
from tests.core.recording import Recorded, errors_of_loop
from tests.loop.stepped_clock import SteppedClock

pytestmark = pytest.mark.asyncio


async def awaiting(operation) -> Outcome:
    return await operation


async def waiting(purgatory, *keys, **options):
    task = asyncio.create_task(purgatory.wait(*keys, **options))
    await settle()
    return task


def watched(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys or ["k"])
    return operation


# A1


def completing(purgatory) -> bool:
    return purgatory.complete_for_key("k", "result") > 0


COROUTINES = [
    pytest.param(lambda p, op: p.wait("k"), completing, id="wait"),
    pytest.param(lambda p, op: p.wait("k", "l", timeout=60), completing, id="wait, two keys and a timeout"),
    pytest.param(
        lambda p, op: p.wait("k", until=lambda: False, timeout=60), completing, id="wait with until"
    ),
    pytest.param(lambda p, op: awaiting(op), completing, id="awaiting an operation"),
    pytest.param(lambda p, op: p.drain(), completing, id="drain"),
    pytest.param(lambda p, op: p.drain(60), completing, id="drain with a timeout"),
]


@pytest.mark.parametrize(("make", "end"), COROUTINES)
async def test_cancellation_at_any_point_is_clean_and_not_swallowed(make, end, manual_clock):
    reported = errors_of_loop()
    timer = Timer(clock=manual_clock)

    async def scenario() -> None:
        purgatory = Purgatory(timer=timer)
        bystander = watched(purgatory, "k")
        other = asyncio.create_task(awaiting(bystander))
        loop = asyncio.get_running_loop()
        # Two passes after the one in which a cancellation comes: the task has seen that by then.
        loop.call_soon(loop.call_soon, loop.call_soon, end, purgatory)
        try:
            await make(purgatory, bystander)
        finally:
            over = bystander.outcome is not None
            assert (purgatory.pending, timer.pending) == (0 if over else 1, 0)
            assert over or not other.done()
            end(purgatory)
            assert bystander.outcome is Outcome.COMPLETED
            other.add_done_callback(lambda task: woken.append(task.result()))

    woken: list[Outcome] = []
    points = await cancel_sweep(scenario)
    assert points >= 1
    await settle()
    assert set(woken) == {Outcome.COMPLETED}
    assert len(woken) > 2 * points  # each point was cancelled in two ways, and one run not at all
    assert reported == []


# A2


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


async def test_a_wait_completed_then_cancelled_counts_as_completed(purgatory):
    task = await waiting(purgatory, "k")
    (operation,) = purgatory.operations()
    assert purgatory.complete_for_key("k", "result") == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (operation.outcome, operation.result) == (Outcome.COMPLETED, "result")


# A3


async def test_a_wait_cancelled_then_completed_ends_once(purgatory):
    task = await waiting(purgatory, "k")
    (operation,) = purgatory.operations()
    task.cancel()
    assert purgatory.complete_for_key("k", "result") == 0
    assert operation.outcome is Outcome.CANCELLED
    assert purgatory.pending == 0
    with pytest.raises(asyncio.CancelledError):
        await task
    assert operation.result is None


async def test_cancelled_then_failed_in_one_pass_a_wait_is_not_counted(purgatory):
    task = await waiting(purgatory, "k")
    task.cancel()
    assert purgatory.fail_for_key("k", KeyError("late")) == 0
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_value_for_a_just_cancelled_wait_goes_to_the_next(purgatory):
    tokens: list[str] = []

    def take() -> str | None:
        return tokens.pop() if tokens else None

    first = await waiting(purgatory, "token", until=take)
    second = await waiting(purgatory, "token", until=take)
    first.cancel()
    tokens.append("the only one")
    assert purgatory.check_and_complete("token") == 1
    assert await second == "the only one"
    assert first.cancelled()


# A4


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


# A5


async def test_inside_a_foreign_timeout_a_wait_leaves_nothing_behind():
    """The caller's own deadline gives `TimeoutError`; ours, through ``timeout=``, is never lost to a race."""
    async with Purgatory() as purgatory:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await purgatory.wait("k", timeout=60)
        with pytest.raises(TimeoutError) as raised:
            await asyncio.wait_for(purgatory.wait("k", timeout=60), 0.001)
        assert not isinstance(raised.value, OperationExpired)
        assert_clean(purgatory)


async def test_wait_for_completed_then_cancelled_leaves_nothing(
    purgatory,
):
    """On CPython 3.11 `asyncio.wait_for` may return the result and forget the cancellation; that is not ours."""
    task = asyncio.create_task(asyncio.wait_for(purgatory.wait("k", timeout=60), 60))
    await settle()
    assert purgatory.complete_for_key("k", "result") == 1
    task.cancel()
    assert (await asyncio.gather(task, return_exceptions=True))[0] == "result" or task.cancelled()
    assert_clean(purgatory)


# A6


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


# A7


@pytest.mark.parametrize(("make", "end"), COROUTINES[:3])
async def test_a_wait_cancelled_before_its_first_step_leaves_nothing(make, end, purgatory):
    task = asyncio.create_task(make(purgatory, None))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_clean(purgatory)


# A8


async def test_cancelling_a_waits_operation_equals_cancelling_its_key(purgatory):
    """There is no future or handle to cancel, as the fault list has it: the operation is the handle."""
    task = await waiting(purgatory, "a", "b", timeout=60)
    (operation,) = purgatory.operations("b")
    assert operation.cancel()
    assert_clean(purgatory)
    with pytest.raises(OperationCancelled):
        await task


# A9


async def test_cancelling_one_awaiter_takes_nothing_from_the_other(
    purgatory,
):
    operation = watched(purgatory)
    first, second = (asyncio.create_task(awaiting(operation)) for _ in range(2))
    await settle()
    first.cancel()
    assert operation.force_complete("result")
    assert await second is Outcome.COMPLETED
    with pytest.raises(asyncio.CancelledError):
        await first
    assert operation.result == "result"

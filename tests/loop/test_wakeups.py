"""A herd does not freeze the loop: waiters wake and expiries run in slices, and other tasks run in between.

Counted in passes of the loop, not timed: a pass of a herd of 100 000 stays under 5 ms when it wakes 5 000 tasks or
fewer (python -m bench.core --only herd times it).
"""

import asyncio

import pytest

from purgatory_async import DelayedOperation, OperationExpired, Outcome, Purgatory, PurgatoryClosed, Timer
from purgatory_async.testing import settle
from tests.loop.stepped_clock import SteppedClock

HERD = 100_000
SMALL_HERD = 20_000  # where what matters is the middle of the waking
MOST_A_PASS = 5_000

pytestmark = pytest.mark.asyncio


class Passes:
    """Counts the loop's passes, and what was done in each of them."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self._next()

    def note(self) -> None:
        """One more was done in this pass."""
        self.done[-1] += 1

    def _next(self) -> None:
        self.done.append(0)
        asyncio.get_running_loop().call_soon(self._next)  # until the loop closes


async def passes_until(over) -> int:
    """Let the loop run until ``over()``; how many passes that took."""
    passes = 0
    while not over():
        await asyncio.sleep(0)
        passes += 1
    return passes


def step(clock: SteppedClock, seconds: float) -> None:
    """Let time pass, and the loop make the wakeup that is due."""
    clock.move(seconds)
    asyncio.get_running_loop().call_soon(clock.ring)


async def gather_herd(purgatory, passes, kind, order, size=HERD):
    """A herd of tasks, each in the middle of its wait; ``order`` notes who wakes."""
    operation = DelayedOperation()
    if kind == "awaiting one operation":
        purgatory.try_complete_else_watch(operation, ["k"])

    async def wait(number: int) -> None:
        try:
            if kind == "awaiting one operation":
                await operation
            else:
                await purgatory.wait("k")
        except PurgatoryClosed:
            pass
        order.append(number)
        passes.note()

    tasks = [asyncio.create_task(wait(number)) for number in range(size)]
    await asyncio.sleep(0)
    assert purgatory.pending == (1 if kind == "awaiting one operation" else size)
    return tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        pytest.param("awaiting one operation", lambda p: p.complete_for_key("k"), id="awaiting, completed"),
        pytest.param("waiting for one key", lambda p: p.complete_for_key("k"), id="waiting, completed"),
        pytest.param("waiting for one key", lambda p: p.close(), id="waiting, closed"),
    ],
)
async def test_a_herd_of_100_000_wakes_in_slices_in_order(kind, end):
    passes = Passes()
    order: list[int] = []
    async with Purgatory() as purgatory:
        tasks = await gather_herd(purgatory, passes, kind, order)
        end(purgatory)
        assert purgatory.pending == 0  # the states have moved inside the call
        assert order == []
        await asyncio.gather(*tasks)
    assert order == list(range(HERD))
    assert max(passes.done) <= MOST_A_PASS


@pytest.mark.slow
async def test_other_tasks_and_keys_are_served_while_a_herd_wakes():
    passes = Passes()
    order: list[int] = []
    async with Purgatory() as purgatory:
        tasks = await gather_herd(purgatory, passes, "waiting for one key", order, SMALL_HERD)
        other = DelayedOperation()
        purgatory.try_complete_else_watch(other, ["other"])
        purgatory.complete_for_key("k")
        await passes_until(lambda: order)
        assert len(order) < SMALL_HERD
        assert purgatory.complete_for_key("other") == 1
        assert other.outcome is Outcome.COMPLETED
        assert await passes_until(lambda: len(order) == SMALL_HERD) >= SMALL_HERD // MOST_A_PASS
        await asyncio.gather(*tasks)


@pytest.mark.slow
async def test_waiters_cancelled_as_a_herd_wakes_affect_no_others():
    passes = Passes()
    order: list[int] = []
    async with Purgatory() as purgatory:
        tasks = await gather_herd(purgatory, passes, "waiting for one key", order, SMALL_HERD)
        purgatory.complete_for_key("k")
        doomed = tasks[1::2]
        for task in doomed:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in doomed)
    assert order == list(range(0, SMALL_HERD, 2))


@pytest.mark.slow
async def test_100_000_equal_deadlines_expire_in_slices_in_order():
    expired: list[int] = []

    class Noting(DelayedOperation[None]):
        def __init__(self, number: int) -> None:
            super().__init__(5)
            self.number = number

        def on_expiration(self) -> None:
            expired.append(self.number)
            passes.note()

    clock = SteppedClock()
    async with Purgatory(timer=Timer(clock=clock)) as purgatory:
        for number in range(HERD):
            purgatory.try_complete_else_watch(Noting(number), [number])
        step(clock, 4.9)
        await settle()
        assert expired == []
        passes = Passes()
        step(clock, 0.2)
        assert await passes_until(lambda: not purgatory.pending) >= HERD // MOST_A_PASS
        assert expired == list(range(HERD))
        assert max(passes.done) <= MOST_A_PASS
        assert purgatory.timer.pending == 0


@pytest.mark.slow
async def test_one_completed_while_its_tick_expires_does_not_expire():
    clock = SteppedClock()
    async with Purgatory(timer=Timer(clock=clock)) as purgatory:
        operations = [DelayedOperation(5) for _ in range(SMALL_HERD)]
        for number, operation in enumerate(operations):
            purgatory.try_complete_else_watch(operation, [number])
        step(clock, 6)
        await passes_until(lambda: purgatory.pending < SMALL_HERD)
        assert purgatory.pending > 2
        late = [operation for operation in operations if operation.outcome is None]
        assert purgatory.complete_for_key(operations.index(late[-1])) == 1
        late[-2].cancel()
        await passes_until(lambda: not purgatory.pending)
        ends = [operation.outcome for operation in late]
        assert ends == [Outcome.EXPIRED] * (len(late) - 2) + [Outcome.CANCELLED, Outcome.COMPLETED]


@pytest.mark.slow
async def test_a_herd_of_waits_that_expire_together_wakes_in_slices():
    passes = Passes()
    clock = SteppedClock()
    order: list[int] = []

    async def wait(number: int) -> None:
        with pytest.raises(OperationExpired):
            await purgatory.wait(number, timeout=5)
        order.append(number)
        passes.note()

    async with Purgatory(timer=Timer(clock=clock)) as purgatory:
        tasks = [asyncio.create_task(wait(number)) for number in range(SMALL_HERD)]
        await asyncio.sleep(0)
        step(clock, 5.1)
        await asyncio.gather(*tasks)
    assert order == list(range(SMALL_HERD))
    assert max(passes.done) <= MOST_A_PASS


async def test_a_few_waiters_do_not_wait_for_a_slice():
    passes = Passes()
    async with Purgatory() as purgatory:
        tasks = [asyncio.create_task(purgatory.wait("k")) for _ in range(3)]
        await asyncio.sleep(0)
        before = len(passes.done)
        purgatory.complete_for_key("k")
        await asyncio.gather(*tasks)
        assert len(passes.done) - before <= 3

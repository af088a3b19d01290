"""`wait` with an async ``until``: it looks after watching and after each check, and loses no signal in between."""

import asyncio
from functools import partial
from unittest.mock import AsyncMock

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.cancelling import each_way

pytestmark = pytest.mark.asyncio


class Table:
    """A row in a database: each look takes a turn of the loop, or until it is let go on."""

    def __init__(self, *, held: bool = False) -> None:
        self.value: object = None
        self.looks = self.running = self.interrupted = 0
        self.go_on = asyncio.Event()
        if not held:
            self.go_on.set()

    async def look(self) -> object:
        self.looks += 1
        self.running += 1
        assert self.running == 1, "two looks at once"
        seen = self.value
        try:
            await asyncio.sleep(0)
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        finally:
            self.running -= 1
        return seen


async def waiting(purgatory, look, **options):
    task = asyncio.create_task(purgatory.wait("row", until=look, **options))
    await settle()
    return task


# When it looks.


async def test_it_looks_at_once_and_returns_what_it_sees(purgatory):
    table = Table()
    table.value = "paid"
    assert await purgatory.wait("row", until=table.look) == "paid"
    assert table.looks == 1


async def test_it_looks_again_after_each_check(purgatory):
    table = Table()
    task = await waiting(purgatory, table.look)
    for looks in (2, 3):
        assert purgatory.check_and_complete("row") == 0
        await settle()
        assert table.looks == looks
    table.value = "paid"
    purgatory.check_and_complete("row")
    assert await task == "paid"


async def test_a_check_during_a_look_causes_another(purgatory):
    table = Table(held=True)
    task = await waiting(purgatory, table.look)
    table.value = "paid"  # which the look under way has not seen
    purgatory.check_and_complete("row")
    purgatory.check_and_complete("row")
    table.go_on.set()
    await settle()
    assert task.done(), "a signal is lost"
    assert await task == "paid"
    assert table.looks == 2


@pytest.mark.parametrize("dress", ["partial", "method", "object", "mock"])
async def test_an_async_function_is_seen_in_any_dress(purgatory, dress):
    class Object:
        async def __call__(self, *_: object) -> int:
            return 7

    look = {"partial": partial(Object().__call__, 1), "method": Object().__call__, "object": Object()}.get(
        dress, AsyncMock(return_value=7)
    )
    assert await purgatory.wait("row", until=look) == 7


async def test_a_look_that_signals_its_own_key_holds_no_loop(purgatory, manual_clock):
    async def look() -> None:
        purgatory.check_and_complete("row")

    task = asyncio.create_task(purgatory.wait("row", until=look, timeout=1))
    for _ in range(5):
        await asyncio.sleep(0)
    manual_clock.advance(1)
    with pytest.raises(OperationExpired):
        await task


async def test_it_looks_in_the_waiting_task(purgatory):
    async def look() -> bool:
        await asyncio.sleep(0)
        return asyncio.current_task() is task

    task = asyncio.create_task(purgatory.wait("row", until=look))
    assert await task


# How it ends.


async def test_a_look_that_does_not_suspend_wins_over_no_time(purgatory):
    assert await purgatory.wait("row", until=AsyncMock(return_value=7), timeout=0) == 7
    with pytest.raises(OperationExpired):
        await purgatory.wait("row", until=AsyncMock(return_value=None), timeout=0)


@pytest.mark.parametrize("found", [7, None])
async def test_with_no_time_a_look_that_suspends_is_not_cut_short(purgatory, manual_clock, found):
    async def look() -> int | None:
        await settle()
        manual_clock.advance(5)
        await settle()
        return found

    waiting = purgatory.wait("row", until=look, timeout=0)
    if found:
        assert await waiting == 7
    else:
        with pytest.raises(OperationExpired):
            await waiting


@pytest.mark.parametrize(
    ("end", "raised"),
    [
        (lambda purgatory, clock: clock.advance(5), OperationExpired),
        (lambda purgatory, clock: purgatory.cancel_for_key("row"), OperationCancelled),
        (lambda purgatory, clock: purgatory.fail_for_key("row", LookupError("gone")), LookupError),
        (lambda purgatory, clock: purgatory.close(), PurgatoryClosed),
    ],
    ids=["deadline", "cancel_for_key", "fail_for_key", "close"],
)
@pytest.mark.parametrize("held", [True, False], ids=["in a look", "between looks"])
async def test_an_end_interrupts_it_and_says_how(purgatory, manual_clock, end, raised, held):
    table = Table(held=held)
    task = await waiting(purgatory, table.look, timeout=5)
    end(purgatory, manual_clock)
    with pytest.raises(raised):
        await task
    assert (table.running, table.interrupted) == (0, int(held))
    assert task.cancelling() == 0


async def test_the_deadline_interrupts_a_look_also_after_a_check(purgatory, manual_clock):
    task = await waiting(purgatory, Table(held=True).look, timeout=5)
    purgatory.check_and_complete("row")
    await settle()
    manual_clock.advance(5)
    await settle()
    assert task.done()
    assert isinstance(task.exception(), OperationExpired)


async def test_a_result_for_the_key_ends_it(purgatory):
    table = Table(held=True)
    task = await waiting(purgatory, table.look)
    assert purgatory.complete_for_key("row", "by hand") == 1
    assert await task == "by hand"
    assert table.running == 0


async def test_what_a_look_raises_comes_out(purgatory):
    with pytest.raises(LookupError):
        await purgatory.wait("row", until=AsyncMock(side_effect=LookupError))
    assert_clean(purgatory)


async def test_a_result_outlives_what_an_interrupted_look_raises(purgatory):
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

    async def look() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("while rolling back")

    task = await waiting(purgatory, look)
    assert purgatory.complete_for_key("row", "by hand") == 1
    assert await task == "by hand"
    (report,) = reports
    assert isinstance(report["exception"], ConnectionError)
    assert "raised under a wait that had ended" in report["message"]


async def test_a_look_that_swallows_its_interruption_changes_no_end(purgatory, manual_clock):
    async def look() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "swallowed"
        raise AssertionError("it is interrupted")

    task = await waiting(purgatory, look, timeout=5)
    manual_clock.advance(5)
    with pytest.raises(OperationExpired):
        await task
    assert task.cancelling() == 0


async def test_a_look_may_swallow_a_cancellation_of_its_task(purgatory):
    async def look() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "swallowed"
        raise AssertionError("it is cancelled")

    task = await waiting(purgatory, look)
    task.cancel()
    assert await task == "swallowed"


# Cancelled.


@each_way
@pytest.mark.parametrize("held", [True, False], ids=["in a look", "between looks"])
async def test_cancelling_the_task_leaves_nothing(purgatory, cancel, held):
    table = Table(held=held)
    await cancel(purgatory.wait("row", until=table.look, timeout=5))
    assert table.running == 0
    assert_clean(purgatory)


@pytest.mark.parametrize("held", [True, False], ids=["in a look", "between looks"])
async def test_a_result_is_not_given_to_a_task_just_cancelled(purgatory, held):
    table = Table(held=held)
    task = await waiting(purgatory, table.look)
    task.cancel()
    assert purgatory.complete_for_key("row", "by hand") == 0
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_earlier_request_to_cancel_does_not_count(purgatory):
    async def body() -> object:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # and works on, without `uncancel`
            return await purgatory.wait("row", until=Table(held=True).look, timeout=5)
        raise AssertionError("it is cancelled")

    task = asyncio.create_task(body())
    await settle()
    task.cancel()
    await settle()
    assert purgatory.complete_for_key("row", "by hand") == 1
    assert await task == "by hand"


async def test_a_cancellation_wins_over_an_end_of_the_same_pass(purgatory, manual_clock):
    table = Table(held=True)
    task = await waiting(purgatory, table.look, timeout=5)
    manual_clock.advance(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_wait_cancelled_at_any_point_leaves_nothing():
    clock = ManualClock()
    purgatory = Purgatory(timer=Timer(clock=clock))

    async def scenario() -> None:
        assert_clean(purgatory)
        table = Table()

        async def pay() -> None:
            for value in (None, None, "paid"):
                await asyncio.sleep(0)
                table.value = value
                purgatory.check_and_complete("row")

        paying = asyncio.ensure_future(pay())
        try:
            assert await purgatory.wait("row", until=table.look, timeout=5) == "paid"
        finally:
            paying.cancel()
            assert table.running == 0

    assert await cancel_sweep(scenario) > 3
    assert_clean(purgatory)


# Refused.


async def test_a_refused_wait_does_not_look():
    looks = AsyncMock(return_value=None)
    purgatory = Purgatory(timer=Timer(clock=ManualClock()), max_pending=1)
    first = await waiting(purgatory, Table(held=True).look)
    for raised, wait in (
        (PurgatoryFull, partial(purgatory.wait, "row")),
        (ValueError, purgatory.wait),
        (TypeError, partial(purgatory.wait, [])),
        (ValueError, partial(purgatory.wait, "row", timeout=float("nan"))),
    ):
        with pytest.raises(raised):
            await wait(until=looks)
    purgatory.close()
    with pytest.raises(PurgatoryClosed):
        await purgatory.wait("row", until=looks)
    with pytest.raises(PurgatoryClosed):
        await first
    assert looks.call_count == 0

"""`Timer.timeout`: whom its deadline interrupts and when, beside others who cancel the task or move the clock."""

import asyncio

import pytest

from purgatory_async import Timer
from purgatory_async.testing import ManualClock, settle
from tests.loop.limited import limited, never
from tests.loop.worlds import World

pytestmark = pytest.mark.asyncio


# A clock that moves inside the body.


async def test_a_clock_moved_inside_strikes_in_the_next_turn(manual_clock: ManualClock) -> None:
    timer = Timer(clock=manual_clock)
    with pytest.raises(TimeoutError):  # noqa: PT012 - the scope is what raises
        async with timer.timeout(5) as scope:
            manual_clock.advance(5)
            assert not scope.expired()
            await asyncio.sleep(0)
            pytest.fail("it went on")
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_a_body_that_ends_before_the_strike_has_met_it(manual_clock: ManualClock) -> None:
    timer = Timer(clock=manual_clock)
    async with timer.timeout(5) as scope:
        manual_clock.advance(5)
    await asyncio.sleep(0)
    assert (scope.expired(), asyncio.current_task().cancelling()) == (False, 0)


async def test_a_strike_to_come_can_be_put_off(manual_clock: ManualClock) -> None:
    timer = Timer(clock=manual_clock, max_pending=1)
    async with timer.timeout(5) as scope:
        manual_clock.advance(5)
        other = timer.call_later(60, print)  # it has the room
        scope.reschedule(5)
        await settle()
        assert (scope.when(), scope.expired(), timer.pending) == (10.0, False, 2)
        manual_clock.advance(5)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        assert scope.expired()
        other.cancel()


async def test_a_task_begun_inside_that_moves_the_clock(manual_clock: ManualClock) -> None:
    """Where tasks begin at once, the scope's own is under way beneath it."""
    timer = Timer(clock=manual_clock)

    async def other() -> None:
        manual_clock.advance(5)

    async with timer.timeout(5) as scope:
        task = asyncio.create_task(other())
        begun = manual_clock.time() == 5
    if begun:
        await asyncio.sleep(0)
        assert not scope.expired()
    await task


# Others' cancellations.


async def test_a_cancellation_by_another_stays_one(world: World) -> None:
    timer = world.timer()
    one = await limited(timer, 5, never)
    one.task.cancel()
    await settle()
    assert (one.raised, one.scope.expired(), timer.pending) == (asyncio.CancelledError, False, 0)


@pytest.mark.parametrize("first", ["the deadline", "another"])
async def test_a_cancellation_beside_the_deadline_wins(world: World, first: str) -> None:
    timer = world.timer()
    one = await limited(timer, 5, never)
    if first == "another":
        before = timer.call_later(4.9995, one.task.cancel)  # in the same tick
        assert before.when < one.scope.when()
    else:
        timer.call_later(5, one.task.cancel)
    await world.run(5)
    assert (one.raised, timer.pending) == (asyncio.CancelledError, 0)


async def test_a_scope_in_a_task_being_cancelled_tells_its_own(world: World) -> None:
    timer, told = world.timer(), []

    async def body() -> None:
        try:
            await never()
        finally:
            with pytest.raises(TimeoutError):
                async with timer.timeout(1):
                    await never()
            told.append("its own")

    one = await limited(timer, 60, body)
    one.task.cancel()
    await settle()
    await world.run(1)
    assert told == ["its own"]
    assert (one.raised, one.task.cancelling()) == (asyncio.CancelledError, 1)


async def test_a_cancelled_task_group_inside_is_its_own_matter(world: World) -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(ExceptionGroup):  # noqa: PT012 - the scope is what raises
        async with world.timer().timeout(5), asyncio.TaskGroup() as group:
            group.create_task(fail())
            await never()
    assert asyncio.current_task().cancelling() == 0


# Nested.


@pytest.mark.parametrize(("inner", "outer"), [(1, 2), (2, 1), (1, 1), (None, 1), (1, None)], ids=str)
async def test_the_earlier_of_two_interrupts(world: World, inner: float | None, outer: float | None) -> None:
    timer, order = world.timer(), []

    async def body() -> None:
        try:
            async with timer.timeout(inner):
                await never()
        except TimeoutError:
            order.append("inner")
            await never()

    one = await limited(timer, outer, body)
    await world.run(1)
    inside = inner == 1 and outer != 1  # both at once: the outer one
    assert (order, one.task.done()) == (["inner"] if inside else [], not inside)
    await world.run(1)
    assert one.task.done() is (outer is not None)
    one.task.cancel()
    await settle()
    assert timer.pending == 0


async def test_asyncios_own_nests_with_it(world: World) -> None:
    timer = world.timer()

    async def body() -> None:
        async with asyncio.timeout(None) as theirs, timer.timeout(60):
            theirs.reschedule(0)
            await never()

    one = await limited(timer, 60, body)
    assert (one.raised, one.scope.expired(), timer.pending) == (TimeoutError, False, 0)

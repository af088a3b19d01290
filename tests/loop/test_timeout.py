"""`Timer.timeout`: `asyncio.timeout` on a timer's clock."""

import asyncio
import contextlib
import math
import weakref
from typing import Any

import pytest

from purgatory_async import PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.testing import ManualClock, settle
from tests.loop.limited import Limited, limited, never
from tests.loop.worlds import World, by_reference_counts_alone, reports

pytestmark = pytest.mark.asyncio


# The deadline.


async def test_the_body_is_interrupted_at_the_deadline(world: World) -> None:
    timer = world.timer()
    one = await limited(timer, 2.5, never)
    assert (one.scope.when(), one.scope.expired(), timer.pending) == (2.5, False, 1)
    await world.run(2.499)
    assert not one.task.done()
    await world.run(0.001)
    assert (one.raised, one.scope.expired(), timer.pending) == (TimeoutError, True, 0)
    assert str(one.task.exception()) == "timeout of 2.5 s expired"
    assert isinstance(one.task.exception().__cause__, asyncio.CancelledError)
    assert one.task.cancelling() == 0


async def test_a_body_that_ends_in_time_leaves_nothing(world: World) -> None:
    timer = world.timer()
    async with timer.timeout(10) as scope:
        await asyncio.sleep(0)
    assert (scope.expired(), scope.when(), timer.pending) == (False, 10.0, 0)
    await world.run(20)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("delay", [0, -1, -0.0], ids=str)
async def test_a_delay_of_nothing_strikes_at_the_first_suspension(world: World, delay: float) -> None:
    steps = []
    with pytest.raises(TimeoutError):  # noqa: PT012 - the scope is what raises
        async with world.timer().timeout(delay):
            steps.append("began")
            await never()
    assert steps == ["began"]


async def test_a_delay_of_nothing_spares_a_body_without_suspension(world: World) -> None:
    async with world.timer().timeout(-1) as scope:
        pass
    await asyncio.sleep(0)
    assert not scope.expired()


@pytest.mark.parametrize("delay", [None, math.inf], ids=str)
async def test_without_a_deadline_nothing_interrupts(world: World, delay: float | None) -> None:
    timer = world.timer()
    one = await limited(timer, delay, never)
    await world.run(1e9)
    assert (one.task.done(), one.scope.when()) == (False, delay)
    one.task.cancel()
    await settle()
    assert (one.raised, one.scope.expired(), timer.pending) == (asyncio.CancelledError, False, 0)


async def test_the_deadline_counts_from_the_call(world: World) -> None:
    timer = world.timer()
    scope = timer.timeout(5)
    await world.run(3)
    assert scope.when() == 5.0
    one = Limited(scope, never)
    await settle()
    await world.run(1.5)
    assert not one.task.done()
    await world.run(0.5)
    assert one.raised is TimeoutError


async def test_an_error_of_the_body_comes_out(world: World) -> None:
    timer = world.timer()
    with pytest.raises(LookupError) as caught:
        async with timer.timeout(10) as scope:
            raise LookupError("own")
    assert (caught.value.__context__, scope.expired(), timer.pending) == (None, False, 0)


async def test_a_body_may_go_on_after_the_interruption(world: World) -> None:
    async def body() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await never()
        return "went on"

    one = await limited(world.timer(), 1, body)
    await world.run(1)
    assert (one.task.result(), one.scope.expired(), one.task.cancelling()) == ("went on", True, 0)


async def test_an_error_in_place_of_the_interruption_names_it(world: World) -> None:
    async def body() -> None:
        try:
            await never()
        finally:
            raise LookupError("cleaning up")

    one = await limited(world.timer(), 1, body)
    await world.run(1)
    assert one.raised is LookupError
    context = one.task.exception().__context__
    assert isinstance(context, TimeoutError)
    assert isinstance(context.__cause__, asyncio.CancelledError)


async def test_a_group_of_errors_names_it_in_each(world: World) -> None:
    async def cleaning() -> None:
        try:
            await never()
        finally:
            raise LookupError("cleaning up")

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(cleaning())
            await never()

    one = await limited(world.timer(), 1, body)
    await world.run(1)
    error = one.task.exception()
    assert isinstance(error, ExceptionGroup)
    assert isinstance(error.exceptions[0].__context__, TimeoutError)
    assert one.task.cancelling() == 0


# Another deadline.


async def test_a_new_deadline_counts_from_now(world: World) -> None:
    timer = world.timer()
    one = await limited(timer, 2, never)
    await world.run(1)
    one.scope.reschedule(3)
    assert one.scope.when() == 4.0
    await world.run(2.999)
    assert not one.task.done()
    await world.run(0.001)
    assert str(one.task.exception()) == "timeout of 3 s expired"


@pytest.mark.parametrize("never_due", [None, math.inf], ids=str)
async def test_a_deadline_can_be_taken_away_and_given(world: World, never_due: float | None) -> None:
    one = await limited(world.timer(), 1, never)
    one.scope.reschedule(never_due)
    assert one.scope.when() == never_due
    await world.run(10)
    assert not one.task.done()
    one.scope.reschedule(1)
    await world.run(1)
    assert one.raised is TimeoutError


async def test_rescheduling_into_the_past_strikes_at_once(world: World) -> None:
    with pytest.raises(TimeoutError):  # noqa: PT012 - the scope is what raises
        async with world.timer().timeout(None) as scope:
            scope.reschedule(-1)
            assert not scope.expired()
            await never()
    assert scope.expired()


@pytest.mark.parametrize("bad", [math.nan, -math.inf, "5", True, 1e30], ids=repr)
async def test_a_bad_delay_changes_nothing(world: World, bad: Any) -> None:
    timer = world.timer()
    with pytest.raises((TypeError, ValueError), match="delay must be"):
        timer.timeout(bad)
    one = await limited(timer, 1, never)
    with pytest.raises((TypeError, ValueError), match="delay must be"):
        one.scope.reschedule(bad)
    assert one.scope.when() == 1.0
    await world.run(1)
    assert one.raised is TimeoutError


# Its states.


async def test_what_a_state_forbids_is_a_runtime_error(world: World) -> None:
    timer, refused = world.timer(), []

    def refuse(scope: Any) -> None:
        with pytest.raises(RuntimeError) as caught:
            scope.reschedule(1)
        assert isinstance(caught.value, PurgatoryError)
        refused.append(str(caught.value).split(": ")[0])

    async def body() -> None:
        try:
            await never()
        finally:
            refuse(expiring.scope)

    refuse(timer.timeout(1))
    async with timer.timeout(1) as scope:
        pass
    refuse(scope)
    expiring = await limited(timer, 1, body)
    await world.run(1)
    assert expiring.raised is TimeoutError
    refuse(expiring.scope)
    assert refused == [f"timeout is {state}" for state in ("not entered", "finished", "expiring", "expired")]


async def test_a_scope_is_entered_once(world: World) -> None:
    timer = world.timer()
    scope = timer.timeout(1)
    async with scope:
        with pytest.raises(RuntimeError, match="has already been entered"):
            await scope.__aenter__()
    with pytest.raises(RuntimeError, match="has already been entered"):
        await scope.__aenter__()
    assert timer.pending == 0


async def test_a_scope_needs_a_task(world: World) -> None:
    timer, caught = world.timer(), asyncio.get_running_loop().create_future()

    def enter() -> None:
        try:
            timer.timeout(1).__aenter__().send(None)
        except RuntimeError as error:
            caught.set_result(error)

    asyncio.get_running_loop().call_soon(enter)
    assert "inside a task" in str(await caught)
    assert timer.pending == 0


async def test_it_shows_its_state(world: World) -> None:
    timer = world.timer()
    scope = timer.timeout(1)
    shown = [repr(scope)]
    async with scope:
        shown.append(repr(scope))
    shown.append(repr(scope))
    states = ("not entered", "active", "finished")
    assert shown == [f"<TimeoutScope {state} when=1.0>" for state in states]


# A full timer, a closed one.


async def test_a_full_timer_refuses_a_scope_but_not_a_new_deadline(world: World) -> None:
    timer = world.timer(max_pending=1)
    one = await limited(timer, 1, never)
    with pytest.raises(PurgatoryFull):
        timer.timeout(1)
    one.scope.reschedule(2)
    await world.run(2)
    assert (one.raised, timer.pending) == (TimeoutError, 0)


async def test_a_closed_timer_refuses(world: World) -> None:
    timer = world.timer()
    early = timer.timeout(1)
    timer.close()
    for delay in (1, None):
        with pytest.raises(PurgatoryClosed):
            timer.timeout(delay)
    with pytest.raises(PurgatoryClosed):
        async with early:
            pytest.fail("it was entered")


@pytest.mark.parametrize("delay", [5, None, math.inf], ids=str)
async def test_closing_the_timer_interrupts_the_body(world: World, delay: float | None) -> None:
    timer = world.timer()
    one = await limited(timer, delay, never)
    assert timer.close() == []
    await settle()
    assert (one.raised, one.scope.expired(), one.task.cancelling()) == (PurgatoryClosed, False, 0)
    assert str(one.task.exception()) == f"timer was closed during a timeout of {delay} s"


async def test_closing_the_timer_inside_strikes_in_the_next_turn(world: World) -> None:
    timer = world.timer()
    with pytest.raises(PurgatoryClosed, match="during a timeout of 5 s"):  # noqa: PT012 - the scope is what raises
        async with timer.timeout(5) as scope:
            timer.close()
            with pytest.raises(PurgatoryClosed, match="is closed"):
                scope.reschedule(1)
            await settle()
            pytest.fail("it went on")
    async with Timer().timeout(5) as scope:
        scope._timer.close()
    await asyncio.sleep(0)  # nothing comes after the body


# Loops and memory.


async def test_a_deadline_after_its_loop_has_closed_does_nothing(manual_clock: ManualClock) -> None:
    timer, left = Timer(clock=manual_clock), []

    def on_a_loop_that_closes() -> None:
        loop = asyncio.SelectorEventLoop()
        left.append(loop.create_task(body()))
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()

    async def body() -> None:
        async with timer.timeout(1):
            await never()

    await asyncio.to_thread(on_a_loop_that_closes)
    heard = reports()
    manual_clock.advance(1)
    (task,) = left
    assert (timer.pending, task.cancelling(), heard) == (0, 0, [])
    task.get_coro().close()
    task._log_destroy_pending = False


async def test_nothing_is_left_for_the_collector(world: World) -> None:
    timer, ended = world.timer(), []

    async def run(delay: float) -> None:
        scope = timer.timeout(delay)
        ended.append(weakref.ref(scope))
        with contextlib.suppress(TimeoutError):
            async with scope:
                await asyncio.sleep(0)
                if delay < 2:
                    await never()

    with by_reference_counts_alone():
        for delay in (1, 5):
            task = asyncio.create_task(run(delay))
            await settle()
            await world.run(1)
            await task
        del task
        await settle()
        assert [scope() for scope in ended] == [None, None]

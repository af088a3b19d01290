"""`Timer.close`: what had not fired comes back, and nothing comes any more."""

import asyncio
import math

import pytest

from purgatory_async import PurgatoryClosed, Timer
from purgatory_async.testing import settle
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import World

pytestmark = pytest.mark.asyncio


async def test_it_returns_the_unfired_handles_each_cancelled(world: World) -> None:
    timer, calls = world.timer(), []
    fired, cancelled, *waiting = (
        timer.call_later(delay, calls.append, delay) for delay in (1, 2, 0.5 + 1, 70, 9_000)
    )
    waiting.append(timer.call_later(math.inf, calls.append, "never"))
    await world.run(1)
    cancelled.cancel()
    assert set(timer.close()) == set(waiting)
    assert [handle.cancelled for handle in waiting] == [True] * 4
    await world.run(10_000)
    assert (calls, fired.cancelled) == ([1], False)


async def test_what_is_due_but_has_not_fired_is_among_them(world: World) -> None:
    timer, calls = world.timer(), []
    zero = timer.call_later(0, calls.append, "zero")
    assert timer.close() == [zero]
    await world.run(1)
    assert calls == []


async def test_a_closed_timer_is_empty_and_says_so(world: World) -> None:
    timer = world.timer()
    timer.call_later(0, int)
    timer.call_later(5, int)
    assert timer.closed is False
    timer.close()
    assert (timer.closed, timer.pending, timer.next_deadline) == (True, 0, None)
    assert "closed" in repr(timer)
    timer.check_invariants()


async def test_closing_again_returns_nothing(world: World) -> None:
    timer = world.timer()
    timer.call_later(5, int)
    timer.close()
    assert timer.close() == []


async def test_a_timer_never_used_can_be_closed(world: World) -> None:
    assert world.timer().close() == []
    assert Timer().close() == []


async def test_the_handles_of_a_closed_timer_are_dead(world: World) -> None:
    timer = world.timer()
    (handle,) = (timer.call_later(5, int),)
    timer.close()
    assert (handle.cancel(), handle.reschedule(1), handle.when) == (False, False, 5.0)


async def test_a_callback_may_close_its_timer_and_get_the_rest(world: World) -> None:
    timer, calls, returned = world.timer(), [], []
    timer.call_later(1, lambda: returned.extend(timer.close()))
    due = timer.call_later(1, calls.append, "due")
    later = timer.call_later(2, calls.append, "later")
    await world.run(5)
    assert (returned, calls, timer.pending) == ([due, later], [], 0)


async def test_closing_between_two_slices_returns_the_rest_of_the_herd() -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    handles = [timer.call_later(0.1, calls.append, number) for number in range(2_000)]
    clock.move(1)
    clock.ring()
    assert timer.close() == handles[len(calls) :]
    called = len(calls)
    await settle()
    assert 0 < called == len(calls) < 2_000


async def test_closing_calls_off_the_wakeup() -> None:
    clock = SteppedClock()
    timer = Timer(clock=clock)
    timer.call_later(5, int)
    timer.close()
    assert clock.armed == []


async def test_a_sleeper_woken_by_closing_may_see_it_closed(world: World) -> None:
    timer, seen = world.timer(), []

    async def sleeper() -> None:
        try:
            await timer.sleep(5)
        except PurgatoryClosed:
            seen.append(timer.closed)

    task = asyncio.create_task(sleeper())
    await settle()
    timer.close()
    await task
    assert seen == [True]


async def test_closing_returns_times_that_have_come_in_their_order(world: World) -> None:
    timer = world.timer()
    await world.run(9)
    whens = [5.0001, 5.0003, 5.0002]
    for when in whens:
        timer.call_at(when, int)
    assert [handle.when for handle in timer.close()] == sorted(whens)

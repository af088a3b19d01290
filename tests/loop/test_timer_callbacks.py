"""When and in which order a `Timer` calls back."""

import asyncio
import math
from typing import Any

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer, TimerHandle
from purgatory_async.testing import settle
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import World

pytestmark = pytest.mark.asyncio


async def test_a_callback_comes_after_its_delay_with_its_arguments(world: World) -> None:
    timer, calls = world.timer(), []
    timer.call_later(2.5, lambda *args: calls.append(args), "a", 1)
    await world.run(2.499)
    assert calls == []
    await world.run(0.001)
    assert calls == [("a", 1)]


async def test_call_at_takes_a_time_of_the_timer_itself(world: World) -> None:
    timer, calls = world.timer(), []
    await world.run(10)
    handle = timer.call_at(timer.time() + 5, lambda: calls.append(timer.time()))
    assert handle.when == 15.0
    await world.run(5)
    assert calls == [15.0]


@pytest.mark.parametrize("delay", [0.0007, 0.07, 1.001, 70.0], ids=str)
async def test_a_repeated_delay_ends_each_time_on_its_own_tick(world: World, delay: float) -> None:
    timer, lateness = world.timer(), []

    def note(handle_of: list[TimerHandle]) -> None:
        lateness.append(timer.time() - handle_of[0].when)

    whens = []
    for step in range(300):
        handle_of: list[TimerHandle] = []
        handle_of.append(timer.call_later(delay, note, handle_of))
        whens.append(handle_of[0].when)
        await world.run(step * 0.00003)
    await world.run(delay + 1)
    assert len(lateness) == 300
    assert min(lateness) > -1e-9
    assert max(lateness) < 0.001
    assert whens == sorted(whens)


@pytest.mark.parametrize("tick", [0.001, 0.02, 1.0, 60.0], ids=lambda tick: f"tick {tick} s")
async def test_a_callback_is_never_early_and_at_most_a_tick_late(world: World, tick: float) -> None:
    timer, lateness = world.timer(tick=tick), []
    await world.run(tick / 3)
    for delay in (tick / 7, tick, 1.5 * tick, 255 * tick, 256 * tick, 300.25 * tick):
        when = timer.time() + delay
        timer.call_at(when, lambda when=when: lateness.append(timer.time() - when))
    await world.run(400 * tick)
    assert len(lateness) == 6
    assert min(lateness) >= 0
    assert max(lateness) < tick


async def test_equal_deadlines_fire_first_in_first_out(world: World) -> None:
    timer, calls = world.timer(), []
    for number in range(100):
        timer.call_at(100.0, calls.append, number)
        await world.run(0.9)
    await world.run(20)
    assert calls == list(range(100))


@pytest.mark.parametrize("delay", [0, 0.0, -0.0, -1, -1e-9, -1e308, pytest.param(-(10**400), id="-10**400")])
async def test_zero_and_negative_delays_come_on_the_next_loop_turn(world: World, delay: float) -> None:
    timer, calls = world.timer(), []
    timer.call_later(delay, calls.append, "called")
    assert (calls, timer.pending) == ([], 1)
    await asyncio.sleep(0)
    assert (calls, timer.pending) == (["called"], 0)


@pytest.mark.parametrize("when", [10.0, 9.999, 0, -5, -1e308, pytest.param(-(10**400), id="-10**400")])
async def test_a_time_that_is_not_to_come_is_the_next_loop_turn(world: World, when: float) -> None:
    timer, calls = world.timer(), []
    timer.time()
    await world.run(10)
    handle = timer.call_at(when, calls.append, "called")
    assert calls == []
    await asyncio.sleep(0)
    assert (calls, handle.fired) == (["called"], True)


def by_call_at(timer: Timer, when: float, calls: list[float]) -> None:
    timer.call_at(when, calls.append, when)


def by_call_later(timer: Timer, when: float, calls: list[float]) -> None:
    timer.call_later(when - timer.time(), calls.append, when)


def by_reschedule(timer: Timer, when: float, calls: list[float]) -> None:
    timer.call_later(0, calls.append, when).reschedule(when - timer.time())


def by_operation(timer: Timer, when: float, calls: list[float]) -> None:
    class Noted(DelayedOperation[None]):
        def on_expiration(self) -> None:
            calls.append(when)

    Purgatory(timer=timer).try_complete_else_watch(Noted(when - timer.time()), ["key"])


def by_sleep(timer: Timer, when: float, calls: list[float]) -> None:
    async def sleep() -> None:
        await timer.sleep(when - timer.time())
        calls.append(when)

    TASKS.append(asyncio.create_task(sleep()))


TASKS: list[asyncio.Task[None]] = []


WAYS = [by_call_at, by_call_later, by_reschedule, by_operation]


@pytest.mark.parametrize("way", [*WAYS, by_sleep, "any"], ids=lambda way: getattr(way, "__name__", way))
async def test_times_that_have_come_fire_in_their_own_order(world: World, way: Any) -> None:
    timer, calls = world.timer(), []
    await world.run(100.0004)
    whens = [100.0002, 99.5, 100.0001, 99.5001, -3, 7, 99.9995, 100]
    for number, when in enumerate(whens):
        (WAYS[number % len(WAYS)] if way == "any" else way)(timer, when, calls)
    await world.run(0)
    TASKS.clear()
    assert calls == sorted(whens)


@pytest.mark.parametrize("way", [by_call_at, by_reschedule], ids=lambda way: way.__name__)
async def test_one_time_that_has_come_is_first_in_first_out(world: World, way: Any) -> None:
    timer, calls = world.timer(), []
    await world.run(10)
    for number in range(20):
        way(timer, 9, calls)
        calls.append(-number)
    assert timer.pending == 20
    handles = [timer.call_at(5, calls.append, number) for number in range(3)]
    handles[0].reschedule(-5)
    del calls[:]
    await world.run(0)
    assert calls == [1, 2, 0, *[9] * 20]


async def test_a_time_that_has_come_goes_behind_what_was_due_before_it() -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    timer.call_later(1.0, calls.append, "due at 1")
    timer.call_later(1.5, calls.append, "due at 1.5")
    clock.move(2)  # the loop is blocked, and nothing has fired
    timer.call_at(1.2, calls.append, "asked for 1.2")
    timer.call_later(0, calls.append, "zero delay")
    clock.ring()
    await settle()
    assert calls == ["due at 1", "asked for 1.2", "due at 1.5", "zero delay"]


async def test_a_time_that_has_come_goes_before_what_was_not_due_yet() -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    timer.call_later(2.0009, calls.append, "due at 2.0009")
    clock.move(2.0008)
    timer.call_later(0, calls.append, "zero delay at 2.0008")
    clock.move(0.001)
    clock.ring()
    await settle()
    assert calls == ["zero delay at 2.0008", "due at 2.0009"]


async def test_past_times_keep_their_order_while_the_clock_moves() -> None:
    class Moving(SteppedClock):
        step_ns = 0

        def time_ns(self) -> int:
            self.step_ns += 1_000  # longer between two looks each time
            self.now_ns += self.step_ns
            return self.now_ns

    timer, calls = Timer(clock=Moving(start=10.0)), []
    for when in (5.0000001, 5.0, 4.9999999):
        timer.call_at(when, calls.append, when)
    await settle()
    assert calls == [4.9999999, 5.0, 5.0000001]


async def test_a_zero_delay_inside_a_callback_waits_for_the_next_pass(world: World) -> None:
    timer, calls = world.timer(), []
    timer.call_later(1, lambda: timer.call_later(0, calls.append, "zero"))
    timer.call_later(1, calls.append, "neighbour")
    await world.run(1)
    assert calls == ["neighbour", "zero"]


@pytest.mark.parametrize("delay", [5e-324, 1e-10, 4.9e-10, 1e-9, 0.0009999], ids=str)
async def test_a_positive_delay_however_short_comes_within_a_tick(world: World, delay: float) -> None:
    timer, calls = world.timer(), []
    timer.call_later(60.0, calls.append, "an earlier one, so that the timer is in use")
    await world.run(100)
    calls.clear()
    timer.call_later(delay, calls.append, "called")
    assert timer.pending == 1
    await world.run(0.001)
    assert calls == ["called"]


async def test_an_infinite_delay_never_comes_but_is_pending(world: World) -> None:
    timer, calls = world.timer(), []
    handles = [timer.call_later(math.inf, calls.append, 1), timer.call_at(math.inf, calls.append, 2)]
    await world.run(3_000_000_000)
    assert (calls, timer.pending, timer.next_deadline) == ([], 2, None)
    assert [handle.when for handle in handles] == [math.inf, math.inf]
    assert [handle.cancel() for handle in handles] == [True, True]
    assert timer.pending == 0


async def test_a_hundred_years_are_counted_to_the_tick(world: World) -> None:
    timer, calls = world.timer(), []
    timer.call_later(3_155_760_000, lambda: calls.append(timer.time()))
    await world.run(3_155_759_999.999)
    assert calls == []
    await world.run(0.001)
    assert calls == [3_155_760_000.0]


async def test_a_callback_may_start_others_which_come_in_their_turn(world: World) -> None:
    timer, calls = world.timer(), []

    def again(number: int) -> None:
        calls.append((number, timer.time()))
        if number < 3:
            timer.call_later(1.5, again, number + 1)

    timer.call_later(1.5, again, 1)
    await world.run(10)
    assert calls == [(1, 1.5), (2, 3.0), (3, 4.5)]

"""`TimerHandle`: cancelling and rescheduling in every state, and its repr."""

import asyncio
import math

import pytest

from purgatory_async import Timer, TimerHandle
from tests.loop.worlds import World

pytestmark = pytest.mark.asyncio


def state(handle: TimerHandle) -> str:
    return {(False, False): "waiting", (True, False): "fired", (False, True): "cancelled"}[
        handle.fired, handle.cancelled
    ]


async def test_a_handle_says_how_it_ended(world: World) -> None:
    timer = world.timer()
    fires, is_cancelled, waits = (timer.call_later(delay, int) for delay in (1, 2, 3))
    assert [state(handle) for handle in (fires, is_cancelled, waits)] == ["waiting"] * 3
    await world.run(1)
    is_cancelled.cancel()
    assert [state(handle) for handle in (fires, is_cancelled, waits)] == ["fired", "cancelled", "waiting"]


async def test_when_is_the_time_asked_for_and_not_the_tick(world: World) -> None:
    timer = world.timer(tick=1.0)
    await world.run(2.25)
    handles = [timer.call_later(0.5, int), timer.call_at(7.3, int), timer.call_later(0.1 + 0.2, int)]
    assert [handle.when for handle in handles] == [2.75, 7.3, 2.55]
    handles[0].reschedule(3.125)
    assert handles[0].when == 5.375


async def test_when_stays_once_it_has_ended(world: World) -> None:
    timer = world.timer()
    fired, cancelled = timer.call_later(1, int), timer.call_later(2, int)
    cancelled.cancel()
    await world.run(5)
    assert (fired.when, cancelled.when) == (1.0, 2.0)


async def test_its_repr_says_when_and_how_it_stands(world: World) -> None:
    timer = world.timer()
    fires, is_cancelled = timer.call_later(1, print), timer.call_later(2.5, print)
    waiting = repr(fires)
    is_cancelled.cancel()
    await world.run(1)
    assert "when=1.0" in waiting
    assert "print" in waiting
    assert ("fired" in repr(fires), "cancelled" in repr(is_cancelled)) == (True, True)


# Cancelling.


@pytest.mark.parametrize("delay", [0, 0.5, 70, 100_000, math.inf], ids=str)
async def test_a_cancelled_callback_never_comes(world: World, delay: float) -> None:
    timer, calls = world.timer(), []
    handle = timer.call_later(delay, calls.append, "called")
    assert (handle.cancel(), timer.pending) == (True, 0)
    await world.run(200_000)
    assert (calls, state(handle)) == ([], "cancelled")


async def test_cancelling_is_true_once(world: World) -> None:
    timer = world.timer()
    handle = timer.call_later(1, int)
    assert [handle.cancel(), handle.cancel()] == [True, False]


@pytest.mark.parametrize("delay", [0, 1], ids=["zero delay", "a second"])
async def test_a_callback_may_cancel_a_neighbour_of_its_pass(world: World, delay: float) -> None:
    timer, calls = world.timer(), []
    timer.call_later(delay, lambda: calls.append(neighbour.cancel()))
    neighbour = timer.call_later(delay, calls.append, "neighbour")
    timer.call_later(delay, calls.append, "the one behind")
    await world.run(delay)
    assert (calls, timer.pending) == ([True, "the one behind"], 0)


# Rescheduling.


@pytest.mark.parametrize("before", [0, 0.5, 70, 100_000, math.inf], ids=lambda delay: f"from {delay}")
@pytest.mark.parametrize("after", [0, 0.25, 300, 70_000], ids=lambda delay: f"to {delay}")
async def test_a_rescheduled_callback_comes_once_after_the_new_delay(
    world: World, before: float, after: float
) -> None:
    timer, calls = world.timer(), []
    handle = timer.call_later(before, lambda: calls.append(timer.time()))
    assert (handle.reschedule(after), timer.pending) == (True, 1)
    await world.run(after)
    assert calls == [float(after)]
    await world.run(200_000)
    assert (len(calls), timer.pending) == (1, 0)


@pytest.mark.parametrize("before", [0, 0.5, 70], ids=lambda delay: f"from {delay}")
async def test_rescheduling_to_infinity_is_never(world: World, before: float) -> None:
    timer, calls = world.timer(), []
    handle = timer.call_later(before, calls.append, "called")
    assert handle.reschedule(math.inf) is True
    await world.run(1_000)
    assert (calls, timer.pending, handle.when) == ([], 1, math.inf)
    assert (handle.cancel(), timer.pending) == (True, 0)


async def test_a_watchdog_put_off_again_and_again_never_bites(world: World) -> None:
    timer, calls = world.timer(), []
    watchdog = timer.call_later(1, calls.append, "bitten")
    for _ in range(1_000):
        await world.run(0.9)
        assert watchdog.reschedule(1) is True
    await world.run(0.999)
    assert calls == []
    await world.run(0.001)
    assert calls == ["bitten"]


async def test_a_rescheduled_callback_fires_last_at_its_new_time(world: World) -> None:
    timer, calls = world.timer(), []
    first = timer.call_later(5, calls.append, "first")
    timer.call_later(5, calls.append, "second")
    first.reschedule(5)
    await world.run(5)
    assert calls == ["second", "first"]


@pytest.mark.parametrize("how", ["fired", "cancelled"])
async def test_rescheduling_what_has_ended_is_false_and_does_nothing(world: World, how: str) -> None:
    timer, calls = world.timer(), []
    handle = timer.call_later(1, calls.append, "called")
    if how == "cancelled":
        handle.cancel()
    await world.run(1)
    came = list(calls)
    assert (handle.reschedule(1), state(handle), handle.when, timer.pending) == (False, how, 1.0, 0)
    await world.run(10)
    assert calls == came


@pytest.mark.parametrize("delay", [0, 1], ids=["zero delay", "a second"])
async def test_inside_its_own_callback_a_handle_has_fired(world: World, delay: float) -> None:
    timer, seen = world.timer(), []

    def callback() -> None:
        seen.append((handle.fired, handle.cancelled, handle.cancel(), handle.reschedule(1), timer.pending))

    handle = timer.call_later(delay, callback)
    await world.run(10)
    assert seen == [(True, False, False, False, 0)]


@pytest.mark.parametrize("delay", [0, 1], ids=["due without the wheel", "due by the wheel"])
@pytest.mark.parametrize("put_off", [0.5, 1_000, math.inf], ids=lambda delay: f"by {delay}")
async def test_a_neighbour_due_in_the_same_pass_may_be_put_off(
    world: World, delay: float, put_off: float
) -> None:
    timer, calls = world.timer(), []
    timer.call_later(delay, lambda: calls.append(neighbour.reschedule(put_off)))
    neighbour = timer.call_later(delay, calls.append, "neighbour")
    timer.call_later(delay, calls.append, "the one behind")
    await world.run(delay)
    assert (calls, timer.pending) == ([True, "the one behind"], 1)
    await world.run(1_000)
    assert (calls[2:], timer.pending) == ((["neighbour"], 0) if put_off < math.inf else ([], 1))


async def test_a_neighbour_rescheduled_by_zero_fires_the_next_turn(
    world: World,
) -> None:
    timer, calls = world.timer(), []
    timer.call_later(1, lambda: neighbour.reschedule(0))
    neighbour = timer.call_later(1, calls.append, "neighbour")
    timer.call_later(1, calls.append, "the one behind")
    await world.run(1)
    assert (calls, timer.pending) == (["the one behind", "neighbour"], 0)


def started(timer: Timer, delay: float) -> tuple[TimerHandle, list[str]]:
    calls: list[str] = []
    return timer.call_later(delay, calls.append, "called"), calls


async def test_moved_and_cancelled_in_one_turn_it_does_not_come(world: World) -> None:
    timer = world.timer()
    handle, calls = started(timer, 0)
    handle.reschedule(0)
    handle.reschedule(1)
    handle.reschedule(0)
    handle.cancel()
    await asyncio.sleep(0)
    await world.run(10)
    assert (calls, timer.pending) == ([], 0)

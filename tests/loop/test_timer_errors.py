"""A callback that raises harms no other; an interrupt propagates, and no callback loses its turn."""

import asyncio
import sys
from collections.abc import Callable

import pytest

from purgatory_async import Timer
from purgatory_async.testing import ManualClock, settle
from tests.loop.stepped_clock import SteppedClock
from tests.loop.test_timer_refusals import each_loop
from tests.loop.worlds import World, raising, reports

ERRORS = [ValueError, asyncio.CancelledError, StopIteration, GeneratorExit, BaseException]


INTERRUPTS = [KeyboardInterrupt, SystemExit]


errors = pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)


interrupts = pytest.mark.parametrize("interrupt", INTERRUPTS, ids=lambda interrupt: interrupt.__name__)


delays = pytest.mark.parametrize("delay", [0, 1], ids=["zero delay", "a second"])


@errors
@delays
@pytest.mark.asyncio
async def test_an_exception_goes_to_the_loop_and_the_pass_goes_on(
    world: World, delay: float, error: type[BaseException]
) -> None:
    timer, calls, reported, exception = world.timer(), [], reports(), error("broken")
    timer.call_later(delay, calls.append, "before")
    timer.call_later(delay, raising(exception))
    timer.call_later(delay, calls.append, "after")
    await world.run(delay)
    assert (calls, timer.pending) == (["before", "after"], 0)
    assert [context["exception"] for context in reported] == [exception]
    assert "a_function_that_raises" in reported[0]["message"]


@pytest.mark.asyncio
async def test_a_raising_callback_has_fired_and_can_be_scheduled_again(world: World) -> None:
    timer, reported, handles = world.timer(), reports(), []

    def again() -> None:
        handles.append(timer.call_later(1, again))
        raise ValueError("broken")

    handles.append(timer.call_later(1, again))
    await world.run(3)
    assert len(reported) == 3
    assert [handle.fired for handle in handles] == [True, True, True, False]


@pytest.mark.asyncio
async def test_an_exception_handler_that_raises_does_not_stop_the_pass(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    timer, calls = world.timer(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: 1 / 0)
    for number in range(20):
        timer.call_later(1, raising(ValueError(f"broken {number}")))
        timer.call_later(1, calls.append, number)
    await world.run(1)
    assert calls == list(range(20))
    assert caplog.records


def test_without_a_loop_an_exception_goes_to_the_unraisable_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls, seen = ManualClock(), [], []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda hooked: seen.append((hooked.exc_value, repr(hooked.object)))
    )
    timer, exception = Timer(clock=clock), ValueError("broken")
    timer.call_later(1, raising(exception))
    timer.call_later(1, calls.append, "after")
    clock.advance(1)
    assert calls == ["after"]
    assert seen[0][0] is exception
    assert "a_function_that_raises" in seen[0][1]


@interrupts
@delays
def test_an_interrupt_leaves_advance_and_the_next_fires_the_rest(
    interrupt: type[BaseException], delay: float
) -> None:
    clock, calls = ManualClock(), []
    timer = Timer(clock=clock)
    timer.call_later(delay, calls.append, "before")
    interrupted = timer.call_later(delay, raising(interrupt()))
    for number in range(5):
        timer.call_later(delay, calls.append, number)
    timer.call_later(delay + 1, calls.append, "later")
    with pytest.raises(interrupt):
        clock.advance(delay)
    assert (calls, interrupted.fired, timer.pending) == (["before"], True, 6)
    clock.advance(0)
    assert calls == ["before", 0, 1, 2, 3, 4]
    clock.advance(1)
    assert (calls[6:], timer.pending) == (["later"], 0)


@interrupts
@pytest.mark.asyncio
async def test_on_a_loop_the_rest_after_an_interrupt_fires_next_turn(
    interrupt: type[BaseException],
) -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    timer.call_later(0.1, raising(interrupt()))
    for number in range(1_000):  # more than a slice
        timer.call_later(0.1, calls.append, number)
    clock.move(0.1)
    with pytest.raises(interrupt):
        clock.ring()
    assert (calls, timer.pending) == ([], 1_000)
    await settle()
    assert (calls, timer.pending) == (list(range(1_000)), 0)


@interrupts
@pytest.mark.asyncio
async def test_on_a_loop_later_deadlines_are_armed_after_an_interrupt(
    interrupt: type[BaseException],
) -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    timer.call_later(0.1, raising(interrupt()))
    timer.call_later(0.2, calls.append, "later")
    clock.move(0.1)
    with pytest.raises(interrupt):
        clock.ring()
    await clock.run(0.1)
    assert (calls, timer.pending) == (["later"], 0)


@interrupts
@pytest.mark.asyncio
async def test_entries_left_by_an_interrupt_can_be_cancelled_or_moved(
    interrupt: type[BaseException],
) -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    timer.call_later(0.1, raising(interrupt()))
    cancelled, put_off, _ = (
        timer.call_later(0.1, calls.append, name) for name in ("cancelled", "put off", "left")
    )
    clock.move(0.1)
    with pytest.raises(interrupt):
        clock.ring()
    assert (cancelled.cancel(), put_off.reschedule(1)) == (True, True)
    await settle()
    assert calls == ["left"]
    await clock.run(1)
    assert (calls, timer.pending) == (["left", "put off"], 0)


@interrupts
@delays
@each_loop
def test_an_interrupt_leaves_the_loop_and_the_next_run_goes_on(
    make_loop: Callable[[], asyncio.AbstractEventLoop], delay: float, interrupt: type[BaseException]
) -> None:
    loop, clock, calls = make_loop(), SteppedClock(), []
    timer = Timer(clock=clock)

    async def start() -> None:
        timer.call_later(delay, raising(interrupt()))
        for number in range(1_000):
            timer.call_later(delay, calls.append, number)
        clock.move(delay)
        loop.call_soon(clock.ring)
        for _ in range(20):
            await asyncio.sleep(0)

    task = loop.create_task(start())
    try:
        with pytest.raises(interrupt):
            loop.run_until_complete(task)
        assert len(calls) < 1_000
        loop.run_until_complete(task)
        assert (calls, timer.pending) == (list(range(1_000)), 0)
    finally:
        loop.close()

"""The timer on the loops themselves: virtual time of a whole loop, debug mode, and the system's clock."""

import asyncio
import contextvars
import math
import time
from collections.abc import Callable

import pytest

from purgatory_async import Timer
from purgatory_async.clock import MonotonicClock

virtual = pytest.mark.asyncio(loop_factories=["virtual"])


@virtual
async def test_on_a_virtual_loop_the_timer_uses_its_time() -> None:
    loop, timer, calls = asyncio.get_running_loop(), Timer(), []
    timer.call_later(3_600, lambda: calls.append((timer.time(), loop.time())))
    await asyncio.sleep(86_400)  # the loop's own: on another clock the timer would hang here
    assert calls == [(3_600.0, 3_600.0)]
    assert (timer.time(), loop.time()) == (86_400.0, 86_400.0)


@virtual
async def test_on_a_virtual_loop_a_sleep_takes_virtual_time() -> None:
    loop, timer = asyncio.get_running_loop(), Timer()
    assert timer.time() == loop.time()
    await timer.sleep(86_400)
    assert (timer.time(), loop.time()) == (86_400.0, 86_400.0)


@virtual
async def test_on_a_virtual_loop_callbacks_are_exact_to_the_tick() -> None:
    timer, lateness = Timer(), []
    delays = [0.07, 0.1 + 0.2, 1.001, 0.0004, 65.536, 1e6 + 0.1, 0.9999999]
    for delay in delays:
        timer.call_later(delay, lambda delay=delay: lateness.append(timer.time() - delay))
    await asyncio.sleep(2e6)
    assert len(lateness) == len(delays)
    assert min(lateness) > -1e-9
    assert max(lateness) < 0.001


@virtual
async def test_on_a_virtual_loop_an_idle_timer_lets_the_loop_be_idle() -> None:
    timer = Timer()
    timer.call_later(1, int)
    await asyncio.sleep(10)
    loop = asyncio.get_running_loop()
    assert (timer.pending, [handle for handle in loop._scheduled if not handle.cancelled()]) == (0, [])


@virtual
async def test_a_timer_keeps_its_own_clock_on_a_virtual_loop() -> None:
    timer = Timer(clock=MonotonicClock())
    before = timer.time()
    await asyncio.sleep(1e6)
    assert timer.time() - before < 1e6


@pytest.mark.asyncio
async def test_in_debug_mode_everything_works_as_ever() -> None:
    asyncio.get_running_loop().set_debug(True)
    timer, calls = Timer(), []
    timer.call_later(0, calls.append, "zero")
    timer.call_later(1e-6, calls.append, "soon")
    timer.call_later(1_000, calls.append, "late").cancel()
    await timer.sleep(0.002)
    assert (calls, timer.pending) == (["zero", "soon"], 0)
    assert timer.close() == []


@pytest.mark.asyncio
async def test_the_systems_clock_wakes_the_timer() -> None:
    timer, calls = Timer(tick=1e-6), []
    timer.call_later(1e-6, calls.append, "called")
    await timer.sleep(1e-5)
    assert calls == ["called"]


class RecordingLoop(asyncio.SelectorEventLoop):
    """Writes down what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []
        self.contexts: list[contextvars.Context | None] = []

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_later(delay, callback, *args, context=context)
        self.delays[-1] = delay
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self.delays.append(when - self.time())
        self.contexts.append(context)
        return super().call_at(when, callback, *args, context=context)


def ask(loop: RecordingLoop, remaining_ns: int) -> tuple[float, int]:
    """Ask for a wakeup; returns the delay that the loop was asked for, and how much the least would have been."""

    async def main() -> int:
        clock = MonotonicClock()
        when_ns = time.monotonic_ns() + remaining_ns
        clock.call_at_ns(when_ns, int).cancel()
        return when_ns - time.monotonic_ns()

    try:
        least_ns = loop.run_until_complete(main())
    finally:
        loop.close()
    return loop.delays[0], least_ns


REMAINDERS = pytest.mark.parametrize("remaining_ns", [1, 499_999, 1_000_001, 5_400_000, 10**9 + 1, 10**18])


@REMAINDERS
def test_the_system_clock_rounds_up_for_other_loops(
    remaining_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # uvloop counts in milliseconds: asked for less than half of one it would call back at once, and spin.
    monkeypatch.setattr(asyncio, "BaseEventLoop", int)  # so that no loop is one of asyncio's own
    delay, least_ns = ask(RecordingLoop(), remaining_ns)
    assert delay * 1000 == pytest.approx(round(delay * 1000), abs=1e-6)
    assert delay <= 86_400
    assert delay * 1e9 > least_ns or delay == 86_400
    assert delay <= math.ceil(remaining_ns / 1e6) / 1000


@REMAINDERS
def test_the_system_clock_asks_asyncio_for_the_exact_rest(
    remaining_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fault: whole milliseconds there too, and what is due comes half of one later than it must.
    now_ns = time.monotonic_ns()  # the clocks stand: what passes between two readings would count too
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    monkeypatch.setattr(MonotonicClock, "time_ns", lambda _: now_ns)
    monkeypatch.setattr(RecordingLoop, "time", lambda _: now_ns / 1e9)
    delay, _ = ask(RecordingLoop(), remaining_ns)
    assert delay == pytest.approx(min(remaining_ns / 1e9, 86_400), abs=1e-6)


def test_a_wakeup_comes_in_an_empty_context() -> None:
    loop = RecordingLoop()
    ask(loop, 1)
    assert loop.contexts[0] is not None
    assert len(loop.contexts[0]) == 0

"""When `Periodic` runs its work: the rhythm, the missed periods, and the one entry it holds."""

import asyncio
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from math import ceil

import pytest

from purgatory_async import Purgatory, PurgatoryFull, Timer
from purgatory_async.patterns import Periodic
from purgatory_async.patterns.periodic import Missed, Mode
from purgatory_async.testing import ManualClock, settle
from tests.loop.worlds import ManualWorld, SteppedWorld, World, raising, reports
from tests.patterns.work import TimedWork, each_kind, each_world, pass_time

each_mode = pytest.mark.parametrize("mode", ["fixed_delay", "fixed_rate"])


each_missed = pytest.mark.parametrize("missed", ["skip", "burst", "delay"])


# The rhythm.


@each_world
@each_mode
@pytest.mark.asyncio
async def test_it_runs_first_after_one_period_and_then_every_period(
    world_class: type[World], mode: Mode
) -> None:
    world = world_class()
    timer = world.timer()
    timed = TimedWork(timer)
    beat = Periodic(timer, 20, timed.plain, mode=mode)
    await world.run(19.999)
    assert (timed.begun, beat.runs) == ([], 0)
    await world.run(50.001)
    assert timed.begun == [20, 40, 60]
    assert (beat.runs, beat.skipped) == (3, 0)
    beat.close()


def test_a_fixed_delay_counts_from_the_end_of_the_work() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    timed = TimedWork(timer, clock, takes=(3, 14, 0, 7))
    beat = Periodic(timer, 10, timed.plain, mode="fixed_delay")
    clock.advance(65)
    assert timed.begun == [10, 23, 47, 57]
    assert timed.ended == [13, 37, 47, 64]
    assert beat.skipped == 0


def test_a_fixed_rate_counts_from_the_start_however_long_work_is() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    timed = TimedWork(timer, clock, takes=(3, 9, 0, 7))
    beat = Periodic(timer, 10, timed.plain, mode="fixed_rate")
    clock.advance(65)
    assert timed.begun == [10, 20, 30, 40, 50, 60]
    assert beat.skipped == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("mode", "begun"), [("fixed_delay", [10, 23, 42, 52]), ("fixed_rate", [10, 20, 30, 40, 50])]
)
async def test_async_work_counts_with_the_time_it_is_suspended(
    mode: Mode, begun: list[float], world: SteppedWorld
) -> None:
    timer = world.timer()
    timed = TimedWork(timer, takes=(3, 9))
    beat = Periodic(timer, 10, timed.awaited, mode=mode)
    await world.run(55)
    assert timed.begun == begun
    assert timed.ended[:2] == [begun[0] + 3, begun[1] + 9]
    await beat.aclose()


@pytest.mark.parametrize("tick", [0.001, 0.25], ids=["fine tick", "coarse tick"])
@pytest.mark.parametrize("period", [0.1, 1 / 3, 0.0007], ids=["0.1 s", "a third of a second", "0.7 ms"])
def test_a_fixed_rate_does_not_drift_over_ten_thousand_periods(period: float, tick: float) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock, tick=tick)
    timed = TimedWork(timer)
    beat = Periodic(timer, period, timed.plain, mode="fixed_rate", missed="burst")
    clock.advance(10_000 * period + tick)
    beat.close()
    exact_ms, tick_ms = Fraction(round(period * 3e4), 30), round(tick * 1000)
    due_ms = [turn * exact_ms for turn in range(1, 10_001)]
    assert [round(time * 1000) for time in timed.begun[:10_000]] == [
        tick_ms * ceil(due / tick_ms) for due in due_ms
    ]


def test_a_fixed_delay_passes_whole_and_at_most_a_tick_more() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    timed = TimedWork(timer)
    beat = Periodic(timer, 1 / 3, timed.plain)
    clock.advance(1000)
    beat.close()
    gaps = [later - earlier for earlier, later in pairwise([0.0, *timed.begun])]
    assert min(gaps) > 1 / 3 - 1e-9
    assert max(gaps) < 1 / 3 + 0.001
    assert len(gaps) == 1000 * 1000 // 334


# Missed periods: a run of 25 s that begins at 10 s; and a loop that is blocked until 35 s.
MISSED_DURING_WORK = {"skip": [10, 40, 50], "burst": [10, 35, 35, 40, 50], "delay": [10, 45, 55]}


MISSED_WHILE_BLOCKED = {"skip": [35, 40, 50], "burst": [35, 35, 35, 40, 50], "delay": [35, 45, 55]}


@each_world
@each_missed
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.asyncio
async def test_of_the_periods_that_passed_during_long_work(
    world_class: type[World], missed: Missed, *, is_async: bool
) -> None:
    if is_async and world_class is ManualWorld:
        pytest.skip("it jumps over what tasks would do")
    world = world_class()
    timer = world.timer()
    timed = TimedWork(timer, world.clock, takes=(25,))
    work = timed.awaited if is_async else timed.plain
    beat = Periodic(timer, 10, work, mode="fixed_rate", missed=missed)
    await world.run(10)
    await world.run(55 - timer.time())
    assert timed.begun == MISSED_DURING_WORK[missed]
    assert beat.skipped == (2 if missed == "skip" else 0)
    assert beat.runs == len(timed.begun)
    beat.close()


@each_missed
@pytest.mark.asyncio
async def test_of_the_periods_that_passed_while_the_loop_was_blocked(
    missed: Missed, world: SteppedWorld
) -> None:
    timer = world.timer()
    timed = TimedWork(timer)
    beat = Periodic(timer, 10, timed.plain, mode="fixed_rate", missed=missed)
    world.clock.move(35)
    await world.run(20)
    assert timed.begun == MISSED_WHILE_BLOCKED[missed]
    assert beat.skipped == (2 if missed == "skip" else 0)
    beat.close()


@each_missed
@pytest.mark.asyncio
async def test_with_a_fixed_delay_no_period_is_missed(missed: Missed, world: SteppedWorld) -> None:
    timer = world.timer()
    timed = TimedWork(timer, takes=(25,))
    beat = Periodic(timer, 10, timed.awaited, mode="fixed_delay", missed=missed)
    await world.run(46)
    world.clock.move(34)
    await world.run(11)
    assert timed.begun == [10, 45, 80, 90]
    assert beat.skipped == 0
    beat.close()


@pytest.mark.parametrize(
    ("missed", "begun", "skipped"),
    [("skip", [10, 40, 70, 100], 6), ("burst", [10, 35, 60, 85], 0), ("delay", [10, 45, 80, 115], 0)],
    ids=["skip", "burst", "delay"],
)
def test_work_longer_than_a_period_does_not_pile_up(missed: Missed, begun: list[float], skipped: int) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    timed = TimedWork(timer, clock, takes=(25,) * 4)

    def work() -> None:
        assert timer.pending == 1
        timed.plain()
        if len(timed.begun) == 4:
            beat.close()

    beat = Periodic(timer, 10, work, mode="fixed_rate", missed=missed)
    clock.advance(200)
    assert timed.begun == begun
    assert beat.skipped == skipped
    assert timer.pending == 0


@pytest.mark.parametrize(
    ("missed", "begun", "skipped"),
    [("skip", [10, 20, 40, 50], 1), ("burst", [10, 20, 40, 40, 50], 0), ("delay", [10, 20, 50], 0)],
    ids=["skip", "burst", "delay"],
)
def test_a_run_due_as_the_former_ends_is_not_missed(missed: Missed, begun: list[float], skipped: int) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    timed = TimedWork(timer, clock, takes=(10, 20))
    beat = Periodic(timer, 10, timed.plain, mode="fixed_rate", missed=missed)
    clock.advance(31)
    clock.advance(55 - clock.time())
    assert timed.begun == begun
    assert beat.skipped == skipped
    beat.close()


@pytest.mark.parametrize("period", [0.1, 0.7, 1.1, 3.3], ids=lambda period: f"{period} s")
def test_a_run_due_just_then_is_not_missed_by_float_rounding(period: float) -> None:
    for periods in range(1, 200):
        clock = ManualClock()
        timer = Timer(clock=clock)
        timed = TimedWork(timer, clock, takes=(periods * period,))
        beat = Periodic(timer, period, timed.plain, mode="fixed_rate")
        clock.advance(period)
        clock.advance(0)
        assert timed.begun == [period, timed.ended[0]]
        assert beat.skipped == periods - 1
        beat.close()


@pytest.mark.parametrize(
    ("period", "tick"),
    [(0.1, 0.001), (1 / 3, 0.001), (0.001 / 3, 0.001), (1.0004e-6, 1e-6), (7.0, 1.0), (86_400 / 7, 0.001)],
    ids=lambda seconds: f"{seconds:.6g} s",
)
@pytest.mark.parametrize("blocked", [1.0, 1000.05, 100_000.0], ids=lambda seconds: f"{seconds:g} s")
@pytest.mark.asyncio
async def test_after_a_block_the_next_run_is_the_next_due(
    period: float, tick: float, blocked: float, world: SteppedWorld
) -> None:
    timer = world.timer(tick=tick)
    timed = TimedWork(timer)
    beat = Periodic(timer, period, timed.plain, mode="fixed_rate")
    world.clock.move(period + blocked)
    await world.run(0)
    woken_at = world.clock.now_ns
    turns_by_then = beat.runs + beat.skipped
    await world.run(period + tick)
    # The run that came late, and the first that was due then or after.
    assert timed.begun[0] == woken_at / 1e9
    assert 0 <= timed.begun[1] - timed.begun[0] < period + tick
    first_due = Fraction(round(period * 1e9), 10**9)
    fallen_due = (Fraction(woken_at, 10**9) - first_due) / Fraction(period) + 1
    assert turns_by_then == pytest.approx(float(fallen_due), abs=1)
    beat.close()


# The one entry of the timer.


@each_world
@each_mode
@each_missed
@pytest.mark.asyncio
async def test_it_holds_one_timer_entry_and_none_when_closed(
    world_class: type[World], mode: Mode, missed: Missed
) -> None:
    world, seen = world_class(), []
    timer = world.timer()

    def work() -> None:
        seen.append(timer.pending)
        pass_time(world.clock, len(seen) % 4 * 0.4)
        if len(seen) % 3 == 0:
            raise ValueError("broken")

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    beat = Periodic(timer, 1, work, mode=mode, missed=missed)
    for _ in range(50):
        await world.run(1)
        assert timer.pending == 1
        timer.check_invariants()
    assert len(seen) > 20
    assert set(seen) == {1}
    beat.close()
    assert (timer.pending, timer.next_deadline) == (0, None)


@pytest.mark.asyncio
async def test_it_holds_its_entry_while_async_work_is_suspended(world: SteppedWorld) -> None:
    timer = world.timer()
    release = asyncio.Event()
    beat = Periodic(timer, 1, release.wait)
    await world.run(5)
    assert (timer.pending, beat.runs, world.clock.armed) == (1, 1, [])
    release.set()
    await settle()
    await world.run(1)
    assert (timer.pending, beat.runs) == (1, 2)
    await beat.aclose()


@each_mode
@pytest.mark.asyncio
async def test_a_timer_that_fills_during_the_work_does_not_end_it(mode: Mode, world: SteppedWorld) -> None:
    timer = world.timer(max_pending=2)
    timed = TimedWork(timer)

    async def work() -> None:
        timed.plain()
        with suppress(PurgatoryFull):
            while True:
                timer.call_later(1000, print)

    beat = Periodic(timer, 1, work, mode=mode)
    await world.run(5)
    assert (timed.begun, timer.pending) == ([1, 2, 3, 4, 5], 2)
    beat.close()
    assert timer.pending == 1
    timer.close()


@pytest.mark.slow
@each_mode
@pytest.mark.asyncio
async def test_on_the_system_clock_runs_are_never_early_or_too_many(mode: Mode) -> None:
    timer = Timer()
    begun_at = timer.time()
    timed = TimedWork(timer)
    async with Periodic(timer, 0.01, timed.awaited, mode=mode) as beat:
        await asyncio.sleep(0.5)
    passed = timer.time() - begun_at
    assert 1 <= beat.runs + beat.skipped <= passed / 0.01 + 1e-3
    assert all(time - begun_at >= 0.01 * turn - 1e-6 for turn, time in enumerate(timed.begun, 1))
    assert timer.pending == 0


# Work that raises.


@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError])
@pytest.mark.asyncio
async def test_a_plain_function_may_raise_coroutine_exceptions(
    error: type[BaseException], world: SteppedWorld
) -> None:
    reported = reports()
    beat = Periodic(world.timer(), 1, raising(error()))
    await world.run(3)
    assert [type(context["exception"]) for context in reported] == [error] * 3
    beat.close()


@each_kind
@pytest.mark.asyncio
async def test_an_exception_handler_that_interrupts_does_not_end_it(
    kind: Callable[[BaseException], Callable[[], object]], world: SteppedWorld
) -> None:
    raised = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["exception"]))
    beat = Periodic(world.timer(), 1, kind(ValueError("broken")))
    await world.run(2)
    assert (len(raised), beat.runs) == (2, 2)
    beat.close()


# Work that is cancelled.


@pytest.mark.asyncio
async def test_cancelled_work_ends_and_the_next_period_runs(world: SteppedWorld) -> None:
    reported = reports()
    timer = world.timer()
    timed = TimedWork(timer, takes=(100, 0, 0))
    tasks: list[asyncio.Task[object] | None] = []

    async def work() -> None:
        tasks.append(asyncio.current_task())
        await timed.awaited()

    beat = Periodic(timer, 1, work)
    await world.run(5.5)
    assert tasks[0] is not None
    tasks[0].cancel()
    await world.run(2)
    assert timed.begun == [1, 6.5, 7.5]
    assert (timed.cancelled, reported) == (1, [])
    beat.close()


@pytest.mark.asyncio
async def test_work_cancelled_before_its_first_step_ends_too() -> None:
    clock = ManualClock()
    timed = TimedWork(timer := Timer(clock=clock))
    before = asyncio.all_tasks()
    beat = Periodic(timer, 1, timed.awaited)
    clock.advance(1)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await settle()
    assert beat.runs == 1
    clock.advance(1)
    await settle()
    assert beat.runs == 2
    beat.close()


# Without a loop.


def test_without_a_loop_plain_work_runs_on_a_manual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, raised = ManualClock(), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))
    broken = ValueError("broken")
    timer = Timer(clock=clock)
    beat = Periodic(timer, 1, raising(broken))
    clock.advance(3)
    assert (raised, beat.runs, timer.pending) == ([broken] * 3, 3, 1)
    beat.close()


def test_without_a_loop_async_work_is_refused_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, raised = ManualClock(), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(str(unraisable.exc_value)))
    timed = TimedWork(timer := Timer(clock=clock))
    beat = Periodic(timer, 1, timed.awaited)
    clock.advance(3)
    gc.collect()
    assert (raised, timed.begun, beat.runs) == (["no running event loop"] * 3, [], 3)
    beat.close()


# Closing.


@pytest.mark.asyncio
async def test_aclose_waits_for_work_that_resists_cancellation(world: SteppedWorld) -> None:
    reported = reports()
    timer, release = world.timer(), asyncio.Event()

    async def work() -> None:
        try:
            await timer.sleep(100)
        except asyncio.CancelledError:
            await release.wait()
            raise ValueError("broken at the end") from None

    beat = Periodic(timer, 1, work)
    await world.run(1)
    closing = asyncio.create_task(beat.aclose())
    await settle()
    assert not closing.done()
    release.set()
    await closing
    await settle()
    assert [str(context["exception"]) for context in reported] == ["broken at the end"]


# Its timer closes.


@pytest.mark.asyncio
async def test_a_timer_filled_while_it_drains_ends_it_with_a_report(world: SteppedWorld) -> None:
    reported = reports()
    timer = world.timer(max_pending=1)
    purgatory = Purgatory(timer=timer)
    waiting = asyncio.create_task(purgatory.wait("key"))
    beat = Periodic(timer, 1, print)
    await settle()
    draining = asyncio.create_task(purgatory.drain(timeout=5))
    await world.run(3)
    assert beat.closed
    assert [context["exception"].args for context in reported] == [
        ("the timer is full: 1 are pending, max_pending is 1",)
    ]
    purgatory.complete_for_key("key")
    assert await draining
    await waiting


# What it sees, keeps and shows.


@pytest.mark.asyncio
async def test_its_repr_tells_mode_period_state_and_runs(world: SteppedWorld) -> None:
    release = asyncio.Event()
    beat = Periodic(world.timer(), 2.5, release.wait, mode="fixed_rate")
    assert repr(beat) == "<Periodic fixed_rate every 2.5 s, next at 2.5 s, runs=0>"
    await world.run(3)
    assert repr(beat) == "<Periodic fixed_rate every 2.5 s, running, runs=1>"
    await beat.aclose()
    assert repr(beat) == "<Periodic fixed_rate every 2.5 s, closed, runs=1>"

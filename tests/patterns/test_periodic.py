"""When `Periodic` runs its work: the rhythm, the missed periods, and the one entry it holds."""

import asyncio
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from math import ceil

import pytest

from purgatory_async import PurgatoryFull, Timer
from purgatory_async.patterns import Periodic
from purgatory_async.patterns.periodic import Missed, Mode
from purgatory_async.testing import ManualClock, settle
from tests.loop.worlds import SteppedWorld, World
from tests.patterns.diary import WORLD_NAMES, WORLDS, Diary, pass_time

each_world = pytest.mark.parametrize("world_class", WORLDS, ids=WORLD_NAMES)
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
    diary = Diary(timer)
    beat = Periodic(timer, 20, diary.plain, mode=mode)
    await world.run(19.999)
    assert (diary.begun, beat.runs) == ([], 0)
    await world.run(50.001)
    assert diary.begun == [20, 40, 60]
    assert (beat.runs, beat.skipped) == (3, 0)
    beat.close()


def test_a_fixed_delay_counts_from_the_end_of_the_work() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    diary = Diary(timer, clock, takes=(3, 14, 0, 7))
    beat = Periodic(timer, 10, diary.plain, mode="fixed_delay")
    clock.advance(65)
    assert diary.begun == [10, 23, 47, 57]
    assert diary.ended == [13, 37, 47, 64]
    assert beat.skipped == 0


def test_a_fixed_rate_counts_from_the_start_however_long_work_is() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    diary = Diary(timer, clock, takes=(3, 9, 0, 7))
    beat = Periodic(timer, 10, diary.plain, mode="fixed_rate")
    clock.advance(65)
    assert diary.begun == [10, 20, 30, 40, 50, 60]
    assert beat.skipped == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("mode", "begun"), [("fixed_delay", [10, 23, 42, 52]), ("fixed_rate", [10, 20, 30, 40, 50])]
)
async def test_async_work_counts_with_the_time_it_is_suspended(mode: Mode, begun: list[float]) -> None:
    world = SteppedWorld()
    timer = world.timer()
    diary = Diary(timer, takes=(3, 9))
    beat = Periodic(timer, 10, diary.awaited, mode=mode)
    await world.run(55)
    assert diary.begun == begun
    assert diary.ended[:2] == [begun[0] + 3, begun[1] + 9]
    await beat.aclose()


@pytest.mark.parametrize("tick", [0.001, 0.25], ids=["fine tick", "coarse tick"])
@pytest.mark.parametrize("period", [0.1, 1 / 3, 0.0007], ids=["0.1 s", "a third of a second", "0.7 ms"])
def test_a_fixed_rate_does_not_drift_over_ten_thousand_periods(period: float, tick: float) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock, tick=tick)
    diary = Diary(timer)
    beat = Periodic(timer, period, diary.plain, mode="fixed_rate", missed="burst")
    clock.advance(10_000 * period + tick)
    beat.close()
    exact_ms, tick_ms = Fraction(round(period * 3e4), 30), round(tick * 1000)
    due_ms = [turn * exact_ms for turn in range(1, 10_001)]
    assert [round(time * 1000) for time in diary.begun[:10_000]] == [
        tick_ms * ceil(due / tick_ms) for due in due_ms
    ]


def test_a_fixed_delay_passes_whole_and_at_most_a_tick_more() -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    diary = Diary(timer)
    beat = Periodic(timer, 1 / 3, diary.plain)
    clock.advance(1000)
    beat.close()
    gaps = [later - earlier for earlier, later in pairwise([0.0, *diary.begun])]
    assert min(gaps) > 1 / 3 - 1e-9
    assert max(gaps) < 1 / 3 + 0.001
    assert len(gaps) == 1000 * 1000 // 334


# Missed periods: a run of 25 s that begins at 10 s; and a loop that is blocked until 35 s.

MISSED_DURING_WORK = {"skip": [10, 40, 50], "burst": [10, 35, 35, 40, 50], "delay": [10, 45, 55]}
MISSED_WHILE_BLOCKED = {"skip": [35, 40, 50], "burst": [35, 35, 35, 40, 50], "delay": [35, 45, 55]}


@each_world
@each_missed
@pytest.mark.asyncio
async def test_of_the_periods_that_passed_during_long_work(world_class: type[World], missed: Missed) -> None:
    world = world_class()
    timer = world.timer()
    diary = Diary(timer, world.clock, takes=(25,))
    beat = Periodic(timer, 10, diary.plain, mode="fixed_rate", missed=missed)
    await world.run(10)
    await world.run(55 - timer.time())
    assert diary.begun == MISSED_DURING_WORK[missed]
    assert beat.skipped == (2 if missed == "skip" else 0)
    assert beat.runs == len(diary.begun)
    beat.close()


@each_missed
@pytest.mark.asyncio
async def test_of_the_periods_that_passed_during_long_async_work(missed: Missed) -> None:
    world = SteppedWorld()
    timer = world.timer()
    diary = Diary(timer, takes=(25,))
    beat = Periodic(timer, 10, diary.awaited, mode="fixed_rate", missed=missed)
    await world.run(55)
    assert diary.begun == MISSED_DURING_WORK[missed]
    assert beat.skipped == (2 if missed == "skip" else 0)
    beat.close()


@pytest.mark.asyncio(loop_factories=["virtual"])
@each_missed
async def test_missed_periods_follow_the_setting_on_a_virtual_loop(missed: Missed) -> None:
    timer = Timer()
    diary = Diary(timer, takes=(25,))
    async with Periodic(timer, 10, diary.awaited, mode="fixed_rate", missed=missed) as beat:
        await asyncio.sleep(55.001)
        assert diary.begun == MISSED_DURING_WORK[missed]
        assert beat.skipped == (2 if missed == "skip" else 0)


@each_missed
@pytest.mark.asyncio
async def test_of_the_periods_that_passed_while_the_loop_was_blocked(missed: Missed) -> None:
    world = SteppedWorld()
    timer = world.timer()
    diary = Diary(timer)
    beat = Periodic(timer, 10, diary.plain, mode="fixed_rate", missed=missed)
    world.clock.move(35)
    await world.run(20)
    assert diary.begun == MISSED_WHILE_BLOCKED[missed]
    assert beat.skipped == (2 if missed == "skip" else 0)
    beat.close()


@each_missed
@pytest.mark.asyncio
async def test_with_a_fixed_delay_no_period_is_missed(missed: Missed) -> None:
    world = SteppedWorld()
    timer = world.timer()
    diary = Diary(timer, takes=(25,))
    beat = Periodic(timer, 10, diary.awaited, mode="fixed_delay", missed=missed)
    await world.run(46)
    world.clock.move(34)
    await world.run(11)
    assert diary.begun == [10, 45, 80, 90]
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
    diary = Diary(timer, clock, takes=(25,) * 4)

    def work() -> None:
        assert timer.pending == 1
        diary.plain()
        if len(diary.begun) == 4:
            beat.close()

    beat = Periodic(timer, 10, work, mode="fixed_rate", missed=missed)
    clock.advance(200)
    assert diary.begun == begun
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
    diary = Diary(timer, clock, takes=(10, 20))
    beat = Periodic(timer, 10, diary.plain, mode="fixed_rate", missed=missed)
    clock.advance(31)
    clock.advance(55 - clock.time())
    assert diary.begun == begun
    assert beat.skipped == skipped
    beat.close()


@pytest.mark.parametrize("period", [0.1, 0.7, 1.1, 3.3], ids=lambda period: f"{period} s")
def test_a_run_due_just_then_is_not_missed_by_float_rounding(
    period: float,
) -> None:
    for periods in range(1, 200):
        clock = ManualClock()
        timer = Timer(clock=clock)
        diary = Diary(timer, clock, takes=(periods * period,))
        beat = Periodic(timer, period, diary.plain, mode="fixed_rate")
        clock.advance(period)
        clock.advance(0)
        assert diary.begun == [period, diary.ended[0]]
        assert beat.skipped == periods - 1
        beat.close()


@pytest.mark.parametrize(
    ("period", "tick"),
    [(0.1, 0.001), (1 / 3, 0.001), (0.001 / 3, 0.001), (1.0004e-6, 1e-6), (7.0, 1.0), (86_400 / 7, 0.001)],
    ids=lambda seconds: f"{seconds:.6g} s",
)
@pytest.mark.parametrize("blocked", [1.0, 1000.05, 100_000.0], ids=lambda seconds: f"{seconds:g} s")
@pytest.mark.asyncio
async def test_after_a_block_the_next_run_is_the_next_due(period: float, tick: float, blocked: float) -> None:
    world = SteppedWorld()
    timer = world.timer(tick=tick)
    diary = Diary(timer)
    beat = Periodic(timer, period, diary.plain, mode="fixed_rate")
    world.clock.move(period + blocked)
    await world.run(0)
    woken_at = world.clock.now_ns
    turns_by_then = beat.runs + beat.skipped
    await world.run(period + tick)
    # The run that came late, and the first that was due then or after.
    assert diary.begun[0] == woken_at / 1e9
    assert 0 <= diary.begun[1] - diary.begun[0] < period + tick
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
async def test_it_holds_its_entry_while_async_work_is_suspended() -> None:
    world = SteppedWorld()
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
async def test_a_timer_that_fills_during_the_work_does_not_end_it(mode: Mode) -> None:
    world = SteppedWorld()
    timer = world.timer(max_pending=2)
    diary = Diary(timer)

    async def work() -> None:
        diary.plain()
        with suppress(PurgatoryFull):
            while True:
                timer.call_later(1000, print)

    beat = Periodic(timer, 1, work, mode=mode)
    await world.run(5)
    assert (diary.begun, timer.pending) == ([1, 2, 3, 4, 5], 2)
    beat.close()
    assert timer.pending == 1
    timer.close()


@pytest.mark.slow
@each_mode
@pytest.mark.asyncio
async def test_on_the_system_clock_runs_are_never_early_or_too_many(mode: Mode) -> None:
    timer = Timer()
    begun_at = timer.time()
    diary = Diary(timer)
    async with Periodic(timer, 0.01, diary.awaited, mode=mode) as beat:
        await asyncio.sleep(0.5)
    passed = timer.time() - begun_at
    assert 1 <= beat.runs + beat.skipped <= passed / 0.01 + 1e-3
    assert all(time - begun_at >= 0.01 * turn - 1e-6 for turn, time in enumerate(diary.begun, 1))
    assert timer.pending == 0

"""One wakeup of the loop for all that is pending; none when idle, none too many, none missed; and work in slices."""

import asyncio

import pytest

from purgatory_async import Timer
from purgatory_async.testing import settle
from tests.loop.stepped_clock import SteppedClock

pytestmark = pytest.mark.asyncio

MANY = 2_000
MOST_IN_A_TURN = 512


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def timer(clock: SteppedClock) -> Timer:
    return Timer(clock=clock)


async def test_a_new_timer_arms_nothing(clock: SteppedClock, timer: Timer) -> None:
    timer.time()
    await clock.run(3_600)
    assert (clock.asked, timer.next_deadline) == ([], None)


async def test_however_much_is_pending_one_wakeup_is_armed(clock: SteppedClock, timer: Timer) -> None:
    for number in range(MANY):
        timer.call_later(1 + number * 0.37, int)
    assert len(clock.armed) == 1
    assert clock.armed[0] <= 1
    for _ in range(20):
        await clock.run(7)
        assert len(clock.armed) == 1


async def test_a_later_deadline_does_not_touch_the_wakeup(clock: SteppedClock, timer: Timer) -> None:
    timer.call_later(1, int)
    for delay in (1.5, 2, 60, 4_000):
        timer.call_later(delay, int)
    assert len(clock.asked) == 1


async def test_deadlines_of_one_tick_share_a_wakeup(clock: SteppedClock, timer: Timer) -> None:
    for _ in range(MANY):
        timer.call_later(1, int)
    assert len(clock.asked) == 1


async def test_an_earlier_deadline_arms_an_earlier_wakeup(clock: SteppedClock, timer: Timer) -> None:
    calls = []
    for delay in (4_000, 60, 10, 0.01):
        timer.call_later(delay, calls.append, delay)
        assert len(clock.armed) == 1
        assert clock.armed[0] <= delay
    await clock.run(0.01)
    assert calls == [0.01]


async def test_a_callback_put_forward_arms_an_earlier_wakeup(clock: SteppedClock, timer: Timer) -> None:
    calls = []
    handle = timer.call_later(4_000, calls.append, "called")
    handle.reschedule(2)
    assert len(clock.armed) == 1
    assert clock.armed[0] <= 2
    await clock.run(2)
    assert calls == ["called"]


async def test_a_deadline_from_within_a_pass_is_armed_for(clock: SteppedClock, timer: Timer) -> None:
    calls = []
    timer.call_later(50, calls.append, "late")
    timer.call_later(1, lambda: timer.call_later(0.25, calls.append, "early"))
    await clock.run(1)
    assert clock.armed == [1.25]
    await clock.run(0.25)
    assert calls == ["early"]


async def test_when_everything_has_fired_nothing_is_armed(clock: SteppedClock, timer: Timer) -> None:
    for delay in (0, 1, 2, 300):
        timer.call_later(delay, int)
    await clock.run(300)
    assert (timer.pending, timer.next_deadline, clock.armed) == (0, None, [])


async def test_a_deadline_costs_one_wakeup_and_one_per_cascade(clock: SteppedClock, timer: Timer) -> None:
    for delay in (0.1, 0.2, 30, 3_000):
        timer.call_later(delay, int)
    await clock.run(4_000)
    assert clock.rung <= 4 + 1 + 2


async def test_after_all_are_cancelled_at_most_one_wakeup_comes(clock: SteppedClock, timer: Timer) -> None:
    for handle in [timer.call_later(1 + number, int) for number in range(MANY)]:
        handle.cancel()
    await clock.run(2 * MANY)
    assert (clock.rung <= 1, clock.armed, timer.next_deadline) == (True, [], None)


async def test_a_new_entry_in_a_cancelled_tick_is_armed(clock: SteppedClock, timer: Timer) -> None:
    calls: list[str] = []
    for name in ("first", "second", "another", "one more"):
        handle = timer.call_later(0.1, calls.append, name)
        handle.cancel()
        assert timer.next_deadline is None
        assert clock.armed == []
    timer.call_later(0.1, calls.append, "last")
    timer.call_later(0.1, calls.append, "very last")
    await clock.run(0.2)
    assert calls == ["last", "very last"]


async def test_starting_and_cancelling_for_ever_arms_no_more(clock: SteppedClock, timer: Timer) -> None:
    timer.call_later(5, int)
    for _ in range(MANY):
        timer.call_later(60, int).cancel()
    assert len(clock.asked) == 1


async def test_zero_delays_need_no_wakeup_of_the_clock(clock: SteppedClock, timer: Timer) -> None:
    for _ in range(MANY):
        timer.call_later(0, int)
    await settle()
    assert (timer.pending, clock.asked) == (0, [])


# Early and late wakeups.


async def test_an_early_wakeup_fires_nothing_and_arms_again() -> None:
    clock = SteppedClock(early=0.001)
    timer, lateness = Timer(clock=clock), []
    for number in range(200):
        when = 0.0007 + number * 0.0123
        timer.call_at(when, lambda when=when: lateness.append(clock.now_ns - round(when * 1e9)))
    await clock.run(10)
    assert (len(lateness), min(lateness) >= 0, max(lateness) < 1_000_000) == (200, True, True)
    assert clock.rung <= 2 * 200 + 2 * 10  # a bucket each, a few coarse ones, each twice


async def test_a_late_wakeup_fires_all_due_in_deadline_order(clock: SteppedClock, timer: Timer) -> None:
    calls = []
    for delay in (3, 0.5, 70, 2, 65.5, 1):
        timer.call_later(delay, calls.append, delay)
    timer.call_later(1_000, calls.append, "not due")
    clock.move(100)
    clock.ring()
    await settle()
    assert calls == [0.5, 1, 2, 3, 65.5, 70]


async def test_a_deadline_set_during_an_overdue_wakeup_counts_from_now(
    clock: SteppedClock, timer: Timer
) -> None:
    calls = []
    timer.call_later(1, calls.append, "overdue")
    clock.move(10)
    timer.call_later(0.5, lambda: calls.append(timer.time()))
    await clock.run(1)
    assert calls == ["overdue", 10.5]


# Slices.


@pytest.mark.parametrize("delays", ["equal", "different", "zero"])
async def test_a_herd_is_called_in_slices_with_other_tasks_in_between(
    clock: SteppedClock, timer: Timer, delays: str
) -> None:
    calls: list[int] = []
    for number in range(MANY):
        delay = {"equal": 1.0, "different": 1 + number * 0.001, "zero": 0}[delays]
        timer.call_later(delay, calls.append, number)
    clock.move(10)
    clock.ring()
    seen = [len(calls)]
    while len(calls) < MANY:
        await asyncio.sleep(0)
        seen.append(len(calls))
        assert len(seen) < MANY
    per_turn = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(per_turn) <= MOST_IN_A_TURN
    assert calls == list(range(MANY))


@pytest.mark.parametrize(("each_us", "in_the_first_turn"), [(1, 1_024), (3, 512), (100, 256)])
async def test_a_pass_fires_slices_for_a_millisecond_then_yields(
    clock: SteppedClock, timer: Timer, each_us: int, in_the_first_turn: int
) -> None:
    calls: list[int] = []

    def fire(number: int) -> None:
        calls.append(number)
        clock.move(each_us / 1e6)

    for number in range(MANY):
        timer.call_later(0.1, fire, number)
    clock.move(0.1)
    clock.ring()
    assert len(calls) == in_the_first_turn
    await settle()
    assert calls == list(range(MANY))


async def test_what_waits_for_its_slice_can_be_cancelled_and_put_off(
    clock: SteppedClock, timer: Timer
) -> None:
    calls: list[int] = []
    handles = [timer.call_later(0.1, calls.append, number) for number in range(MANY)]
    clock.move(1)
    clock.ring()
    assert len(calls) < MANY
    assert timer.pending == MANY - len(calls)
    assert handles[-1].cancel() is True
    assert handles[-2].reschedule(5) is True
    await settle()
    assert calls == list(range(MANY - 2))
    await clock.run(5)
    assert calls[-1] == MANY - 2
    assert timer.pending == 0


async def test_what_comes_while_a_herd_is_called_is_not_lost(clock: SteppedClock, timer: Timer) -> None:
    calls: list[str] = []
    for _ in range(MANY):
        timer.call_later(0.1, int)
    clock.move(1)
    clock.ring()
    timer.call_later(0.002, calls.append, "soon after")
    timer.call_later(0, calls.append, "zero")
    await settle()
    await clock.run(0.002)
    assert calls == ["zero", "soon after"]


async def test_additions_to_a_half_cascaded_bucket_fire_after_it(clock: SteppedClock, timer: Timer) -> None:
    calls: list[int] = []
    timer.call_later(0.256, int)  # the first of a bucket of 256 ticks
    clock.move(0.3)  # and the loop is late for it
    for number in range(MANY):
        timer.call_later(0.1, calls.append, number)
    clock.ring()
    timer.call_later(0.1, calls.append, MANY)
    await clock.run(0.1)
    assert calls == list(range(MANY + 1))


# Clocks that move under the timer's feet.


class MovingClock(SteppedClock):
    """Every reading is 10 ms later than the one before, as on a machine that is busy elsewhere."""

    def time_ns(self) -> int:
        self.now_ns += 10_000_000
        return self.now_ns


@pytest.mark.parametrize("delays", [(0.005,), (0.025, 0.001), (5.0, 0.005, 0.001, 0.02)], ids=str)
async def test_time_that_passes_during_a_call_loses_nothing(delays: tuple[float, ...]) -> None:
    clock = MovingClock()
    timer, calls = Timer(clock=clock), []
    for delay in delays:
        timer.call_later(delay, calls.append, delay)
    await settle()
    assert timer.pending + len(calls) == len(delays)
    await clock.run(20)
    assert (sorted(calls), timer.pending) == (sorted(delays), 0)

"""`TimingWheel`: the contract with every size, and what is its own."""

import dataclasses
import functools
import math
import random
import tracemalloc
from collections import Counter

import pytest

from purgatory_async.timing import TimerEntry, TimingWheel, WheelLevel
from tests.timing.contract_timer_queue import MakeQueue, TimerQueueContract
from tests.timing.hand_out import hand_out, scheduled

SIZES = [2, 3, 20, 256]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"size {size}")
class TestTimingWheelIsATimerQueue(TimerQueueContract):
    @pytest.fixture
    def make_queue(self, size: int) -> MakeQueue:
        return functools.partial(TimingWheel, size)


def reach(size: int, levels: int) -> int:
    """How far ahead that many levels see, in ticks."""
    return size**levels


@pytest.mark.parametrize("size", [2, 256, 10**9])
def test_a_wheel_costs_only_what_it_holds(size: int) -> None:
    tracemalloc.start()
    try:
        wheel = TimingWheel(size)
        for entry in scheduled(wheel, [1, size, size**2, min(size**3, 2**62)]):
            wheel.cancel(entry)
        assert tracemalloc.get_traced_memory()[0] < 6_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [2, 3])
def test_every_distance_over_four_levels_is_exact(size: int) -> None:
    span = reach(size, 4)
    for phase in range(span):
        for distance in range(1, span + 2):
            wheel = TimingWheel(size, start_tick=phase)
            (entry,) = scheduled(wheel, [phase + distance])
            assert wheel.advance(phase + distance - 1) == []
            assert wheel.advance(phase + distance) == [entry]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"size {size}")
@pytest.mark.parametrize("level", [1, 2, 3], ids=lambda level: f"level {level}")
def test_a_deadline_at_the_end_of_a_level_is_exact(size: int, level: int) -> None:
    span = reach(size, level)
    phases = {0, 1, span // 2, span - 2, span - 1, span, span + 1, 5 * span - 1}
    for phase in phases | set(range(0, span, max(1, span // 40))):
        for distance in (span - 1, span, span + 1):
            wheel = TimingWheel(size, start_tick=phase)
            (entry,) = scheduled(wheel, [phase + distance])
            assert wheel.advance(phase + distance - 1) == []
            wheel.check_invariants()
            assert wheel.advance(phase + distance) == [entry]


def test_a_far_deadline_is_not_returned_early_by_a_cascade() -> None:
    wheel = TimingWheel(20)
    (entry,) = scheduled(wheel, [8_123])
    met = []
    while not met:
        tick = wheel.next_tick
        assert tick > wheel.now_tick
        met = wheel.advance(tick)
    assert (met, wheel.now_tick) == ([entry], 8_123)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"size {size}")
def test_a_deadline_is_looked_at_once_a_level_however_far_it_is(size: int) -> None:
    wheel = TimingWheel(size)
    scheduled(wheel, [10**12 + 7])
    visits = 0
    while (tick := wheel.next_tick) is not None:
        assert tick > wheel.now_tick
        wheel.advance(tick)
        visits += 1
    assert visits <= math.ceil(math.log(10**12 + 7, size)) + 1


def test_moving_between_levels_is_work_that_a_limit_counts() -> None:
    wheel = TimingWheel(20)
    entries = scheduled(wheel, [401] * 10)  # all in the bucket that begins at 400
    assert wheel.advance(401, limit=10) == []
    assert hand_out(wheel, 401, limit=10) == entries


@pytest.mark.parametrize("limit", [1, 2, 5], ids=lambda limit: f"limit {limit}")
def test_half_cascaded_entries_keep_their_place_as_time_moves(limit: int) -> None:
    wheel = TimingWheel(2)
    entries = scheduled(wheel, [13, 12, 13, 12, 13, 12])
    handed_out = []
    for now in range(8, 13):
        handed_out += wheel.advance(now, limit)
        wheel.check_invariants()
    late = scheduled(wheel, [13])
    handed_out += hand_out(wheel, 13, limit)
    assert handed_out == [*entries[1::2], *entries[::2], *late]


def test_its_repr_says_how_much_it_holds() -> None:
    wheel = TimingWheel(20, start_tick=3)
    scheduled(wheel, [5, 9_000])
    assert repr(wheel) == "<TimingWheel wheel_size=20 now_tick=3 entries=2>"


def brute_force(entries: list[TimerEntry], width: int) -> tuple[tuple[int, int], ...]:
    """The buckets of one level, computed from its entries' deadlines."""
    return tuple(sorted(Counter(entry.deadline_tick // width * width for entry in entries).items()))


def test_the_levels_show_how_many_lie_in_each_bucket() -> None:
    wheel = TimingWheel(20, start_tick=1_000)
    near, far, farther = (
        scheduled(wheel, ticks)
        for ticks in ([1_001, 1_019, 1_019], [1_020, 1_039, 1_399], [1_400, 8_999, 1_400])
    )
    assert wheel.levels() == (
        WheelLevel(1, brute_force(near, 1)),
        WheelLevel(20, brute_force(far, 20)),
        WheelLevel(400, brute_force(farther, 400)),
    )
    assert wheel.wheel_size == 20


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"size {size}")
def test_the_levels_hold_every_entry_once_as_time_goes_by(size: int) -> None:
    dice = random.Random(size)
    wheel = TimingWheel(size)
    for _ in range(60):
        entries = scheduled(wheel, [wheel.now_tick + dice.randint(1, size**3) for _ in range(20)])
        for entry in entries[::3]:
            wheel.cancel(entry)
        wheel.advance(wheel.now_tick + dice.randint(1, size**2), limit=dice.choice([None, 7]))
        levels = wheel.levels()
        assert sum(count for level in levels for _, count in level.buckets) == len(wheel)
        for level in levels:
            starts = [start for start, _ in level.buckets]
            assert starts == sorted(set(starts))
            assert all(start % level.ticks_per_bucket == 0 for start in starts)
            assert all(count > 0 for _, count in level.buckets)


def test_a_wheel_with_nothing_in_it_has_no_levels_to_show() -> None:
    wheel = TimingWheel(20)
    (entry,) = scheduled(wheel, [30])
    wheel.cancel(entry)
    assert wheel.levels() == ()


def test_counting_the_buckets_bears_with_what_happens_meanwhile() -> None:
    wheel = TimingWheel(20)
    _, second, _, far = scheduled(wheel, [3, 4, 5, 30])
    counting = wheel.buckets()
    assert next(counting) == (1, 3, 1)
    wheel.cancel(second)
    scheduled(wheel, [5, 6])
    assert next(counting) == (1, 5, 2)
    wheel.advance(20)
    assert list(counting) == []  # what is due at 30 has come down to a finer level
    assert far.scheduled
    assert wheel.levels() == (WheelLevel(1, ((30, 1),)),)


def test_a_level_looked_at_stays_as_it_was() -> None:
    level = WheelLevel(1, ((3, 1),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        level.ticks_per_bucket = 2
    assert hash(level) == hash(WheelLevel(1, ((3, 1),)))


@pytest.mark.parametrize("place", [0, 1, 2], ids=["deadline", "entered", "left"])
def test_insertions_are_counted_between_ticks_only(place: int) -> None:
    ticks: list[float] = [450, 0, 445]
    ticks[place] = -math.inf  # entered then, no level would reach the deadline
    with pytest.raises(TypeError, match="float"):
        TimingWheel(20).insertions(*ticks)  # type: ignore[arg-type]  # as a caller may
    ticks[place] = 2**62 + 1
    name = ("deadline_tick", "entered_tick", "left_tick")[place]
    with pytest.raises(ValueError, match=f"^{name} must be above -2.*62 and at most 2.*62, got {2**62 + 1}$"):
        TimingWheel(20).insertions(*ticks)  # type: ignore[arg-type]  # integers now

"""`HashedWheel`: the contract with every size, and what is its own."""

import functools

import pytest

from purgatory_async.timing import HashedWheel
from tests.timing.contract_timer_queue import MakeQueue, TimerQueueContract
from tests.timing.hand_out import hand_out, scheduled, ticks_of

SIZES = [2, 3, 20, 512]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"size {size}")
class TestHashedWheelIsATimerQueue(TimerQueueContract):
    @pytest.fixture
    def make_queue(self, size: int) -> MakeQueue:
        return functools.partial(HashedWheel, size)


def test_deadlines_a_turn_apart_share_a_bucket_but_not_a_time() -> None:
    wheel = HashedWheel(8)
    scheduled(wheel, [19, 3, 11])
    assert [ticks_of(wheel.advance(tick)) for tick in (2, 3, 10, 11, 18, 19)] == [[], [3], [], [11], [], [19]]


def test_an_exact_multiple_of_the_turn_waits_no_tick_longer() -> None:
    wheel = HashedWheel(8)
    scheduled(wheel, [8, 16])
    assert [ticks_of(wheel.advance(tick)) for tick in (7, 8, 15, 16)] == [[], [8], [], [16]]


def test_a_bucket_of_later_turns_is_something_to_look_at() -> None:
    wheel = HashedWheel(8)
    scheduled(wheel, [8 * 1_000 + 5])
    assert wheel.next_tick == 5
    assert wheel.advance(5) == []
    assert wheel.next_tick == 13


def test_entries_of_later_turns_are_work_that_a_limit_counts() -> None:
    wheel = HashedWheel(8)
    later = scheduled(wheel, [80] * 5)
    (due,) = scheduled(wheel, [8])
    assert wheel.advance(8, limit=5) == []
    assert wheel.next_tick <= 8
    assert wheel.advance(8, limit=1) == [due]
    assert hand_out(wheel, 80, limit=100) == later


def test_deferred_entries_can_be_cancelled_and_joined() -> None:
    wheel = HashedWheel(8)
    aside, cancelled = scheduled(wheel, [16, 16])
    (due,) = scheduled(wheel, [8])
    wheel.advance(8, limit=2)
    assert wheel.cancel(cancelled) is True
    (joined,) = scheduled(wheel, [16])
    wheel.check_invariants()
    assert hand_out(wheel, 8, limit=1) == [due]
    assert hand_out(wheel, 16, limit=1) == [aside, joined]


def test_after_an_idle_turn_the_hand_goes_to_the_next_deadline() -> None:
    wheel = HashedWheel(2)
    (entry,) = scheduled(wheel, [2**62])  # walking there would take a century
    assert wheel.advance(2**62 - 1) == []
    assert wheel.advance(2**62) == [entry]


def test_its_repr_says_how_much_it_holds() -> None:
    wheel = HashedWheel(8, start_tick=3)
    scheduled(wheel, [5, 90])
    assert repr(wheel) == "<HashedWheel wheel_size=8 now_tick=3 entries=2>"


def test_entries_set_aside_are_not_jumped_over() -> None:
    wheel = HashedWheel(2)
    wheel.advance(2)  # a whole turn with nothing due: from now on the hand would jump
    aside, later = scheduled(wheel, [101, 103])
    assert wheel.advance(3, limit=1) == []  # half way through the bucket that they share
    assert hand_out(wheel, 102, limit=1) == [aside]
    assert hand_out(wheel, 103, limit=1) == [later]

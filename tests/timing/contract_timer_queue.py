"""What every `TimerQueue` does: one suite for the wheels, and for the model that they are checked by.

A test module makes a subclass whose ``make_queue`` fixture gives a function from ``start_tick`` to an empty queue.
"""

import gc
import tracemalloc
import weakref
from collections.abc import Callable

import pytest

from purgatory_async.timing import TimerEntry, TimerQueue
from tests.timing.hand_out import hand_out, numbers_of, scheduled, ticks_of

MakeQueue = Callable[..., TimerQueue]

YEAR_IN_TICKS = 365 * 86_400_000

# The edges of the buckets and levels of every size the suite runs with, seen from the start and from inside.
EDGES = sorted(
    {size**power + step for size in (2, 3, 20, 256) for power in (1, 2, 3) for step in (-1, 0, 1)} - {0}
)
PHASES = (0, 1, 2, 19, 20, 255, 256, 399, 401, 1_000_003)

phases = pytest.mark.parametrize("phase", PHASES, ids=lambda phase: f"from {phase}")
distances = pytest.mark.parametrize(
    "distance", [1, 3, 19, 21, 256, 8_001, 16_777_217], ids=lambda distance: f"{distance} ticks away"
)


class TimerQueueContract:
    """Inherit, and give it a `make_queue` fixture."""

    @pytest.fixture
    def queue(self, make_queue: MakeQueue) -> TimerQueue:
        return make_queue()

    # Empty, adding, due.

    def test_an_empty_queue_has_nothing_to_do(self, queue: TimerQueue) -> None:
        assert (len(queue), queue.next_tick, queue.advance(10**15)) == (0, None, [])
        queue.check_invariants()

    @phases
    def test_the_present_is_the_start_until_it_is_moved(self, make_queue: MakeQueue, phase: int) -> None:
        queue = make_queue(start_tick=phase)
        assert queue.now_tick == phase
        queue.advance(phase + 7)
        assert queue.now_tick == phase + 7

    def test_a_scheduled_entry_counts_and_says_so(self, queue: TimerQueue) -> None:
        entry = TimerEntry(5)
        assert queue.schedule(entry) is True
        assert (entry.scheduled, len(queue)) == (True, 1)

    @pytest.mark.parametrize("distance", [0, -1, -1_000], ids=["now", "a tick ago", "long ago"])
    @phases
    def test_what_is_due_already_is_not_added(self, make_queue: MakeQueue, phase: int, distance: int) -> None:
        queue = make_queue(start_tick=phase)
        entry = TimerEntry(phase + distance)
        assert queue.schedule(entry) is False
        assert (entry.scheduled, len(queue), queue.next_tick) == (False, 0, None)

    def test_scheduling_twice_is_refused_and_changes_nothing(self, queue: TimerQueue) -> None:
        (entry,) = scheduled(queue, [5])
        with pytest.raises(ValueError, match="entry for tick 5 is scheduled already"):
            queue.schedule(entry)
        queue.check_invariants()
        assert queue.advance(5) == [entry]

    def test_a_removed_entry_may_be_used_again_with_a_new_deadline(self, queue: TimerQueue) -> None:
        (entry,) = scheduled(queue, [5])
        queue.advance(5)
        entry.deadline_tick = 9
        assert queue.schedule(entry) is True
        assert queue.advance(8) == []
        assert queue.advance(9) == [entry]

    def test_the_deadline_of_a_cancelled_entry_may_be_changed(self, queue: TimerQueue) -> None:
        (entry,) = scheduled(queue, [5_000])
        queue.cancel(entry)
        entry.deadline_tick = 3
        queue.schedule(entry)
        assert queue.advance(3) == [entry]

    # Due on its tick: never earlier, never later.

    @phases
    def test_an_entry_is_due_on_its_tick_and_not_before(self, make_queue: MakeQueue, phase: int) -> None:
        for distance in EDGES:
            queue = make_queue(start_tick=phase)
            (entry,) = scheduled(queue, [phase + distance])
            assert queue.advance(phase + distance - 1) == []
            assert entry.scheduled
            queue.check_invariants()
            assert queue.advance(phase + distance) == [entry]
            assert not entry.scheduled
            assert (len(queue), queue.next_tick) == (0, None)

    @phases
    def test_an_entry_crosses_the_levels_in_steps_as_well_as_at_once(
        self, make_queue: MakeQueue, phase: int
    ) -> None:
        for distance in EDGES:
            queue = make_queue(start_tick=phase)
            (entry,) = scheduled(queue, [phase + distance])
            for step in (distance // 3, distance // 2, distance - 2, distance - 1):
                assert queue.advance(phase + step) == []
                queue.check_invariants()
            assert queue.advance(phase + distance) == [entry]

    @phases
    def test_entries_on_neighbouring_ticks_come_each_on_its_own(
        self, make_queue: MakeQueue, phase: int
    ) -> None:
        queue = make_queue(start_tick=phase)
        scheduled(queue, range(phase + 1, phase + 450))
        for tick in range(phase + 1, phase + 450):
            assert ticks_of(queue.advance(tick)) == [tick]

    def test_one_long_advance_returns_everything_due_in_order(self, queue: TimerQueue) -> None:
        scheduled(queue, reversed(EDGES))
        assert ticks_of(queue.advance(EDGES[-1])) == EDGES
        queue.check_invariants()

    def test_following_next_tick_meets_every_deadline_exactly(self, queue: TimerQueue) -> None:
        near = [edge for edge in EDGES if edge < 9_000]  # one wheel with rounds looks in on each turn
        scheduled(queue, reversed(near))
        met = []
        while (tick := queue.next_tick) is not None:
            assert tick > queue.now_tick
            due = queue.advance(tick)
            assert ticks_of(due) in ([], [tick])
            met += ticks_of(due)
        assert met == near

    @distances
    def test_next_tick_is_never_after_the_earliest_deadline(self, queue: TimerQueue, distance: int) -> None:
        scheduled(queue, [distance, distance + 1, distance * 7 + 3])
        assert 0 < queue.next_tick <= distance

    def test_a_jump_of_a_year_returns_the_due_and_keeps_the_rest(self, queue: TimerQueue) -> None:
        _, _, after = scheduled(queue, [1_000, YEAR_IN_TICKS, YEAR_IN_TICKS + 1])
        assert ticks_of(queue.advance(YEAR_IN_TICKS)) == [1_000, YEAR_IN_TICKS]
        assert queue.next_tick == YEAR_IN_TICKS + 1
        assert queue.advance(YEAR_IN_TICKS + 1) == [after]

    @pytest.mark.parametrize("power", [40, 52, 61], ids=lambda power: f"2**{power}")
    def test_deadlines_of_any_length_are_kept_exactly(self, queue: TimerQueue, power: int) -> None:
        (entry,) = scheduled(queue, [2**power + 1])
        assert queue.advance(2**power) == []
        queue.check_invariants()
        assert queue.advance(2**power + 1) == [entry]

    def test_the_largest_tick_is_due_like_any(self, queue: TimerQueue) -> None:
        (entry,) = scheduled(queue, [2**62])
        assert queue.advance(2**62 - 1) == []
        assert queue.advance(2**62) == [entry]

    # Time never goes back.

    def test_going_back_leaves_the_present_where_it_is(self, queue: TimerQueue) -> None:
        scheduled(queue, [50])
        queue.advance(40)
        assert queue.advance(10) == []
        assert queue.now_tick == 40
        assert queue.schedule(TimerEntry(40)) is False

    def test_going_back_still_hands_out_what_a_limit_held_back(self, queue: TimerQueue) -> None:
        scheduled(queue, [1, 1, 1])
        queue.advance(5, limit=1)
        assert numbers_of(hand_out(queue, 0, limit=1)) + numbers_of(hand_out(queue, 5, limit=1)) == [1, 2]
        assert queue.now_tick == 5

    # Order.

    @distances
    def test_equal_deadlines_come_first_in_first_out(self, queue: TimerQueue, distance: int) -> None:
        entries = scheduled(queue, [distance] * 10)
        assert queue.advance(distance) == entries

    @pytest.mark.parametrize("limit", [None, 1, 2, 3, 7], ids=lambda limit: f"limit {limit}")
    @pytest.mark.parametrize("distance", [20, 21, 256, 8_001, 16_777_217])
    def test_equal_deadlines_stay_in_order_across_levels(
        self, queue: TimerQueue, distance: int, limit: int | None
    ) -> None:
        entries = []
        for step in (0, 1, distance // 2, distance - 8, distance - 3, distance - 1):
            assert queue.advance(step, limit) == []
            batch = [TimerEntry(distance) for _ in range(3)]
            for entry in batch:
                queue.schedule(entry)
            entries += batch
        queue.check_invariants()
        handed_out = queue.advance(distance) if limit is None else hand_out(queue, distance, limit)
        assert handed_out == entries

    def test_a_rescheduled_entry_goes_behind_those_of_its_new_tick(self, queue: TimerQueue) -> None:
        first, second, third = scheduled(queue, [100, 100, 100])
        queue.cancel(first)
        queue.schedule(first)
        assert queue.advance(100) == [second, third, first]

    # Cancelling.

    @distances
    def test_a_cancelled_entry_is_gone_at_once(self, queue: TimerQueue, distance: int) -> None:
        kept, cancelled = scheduled(queue, [distance + 1, distance])
        assert queue.cancel(cancelled) is True
        assert (cancelled.scheduled, len(queue)) == (False, 1)
        assert queue.next_tick <= kept.deadline_tick
        assert queue.advance(distance) == []
        assert queue.advance(distance + 1) == [kept]

    @pytest.mark.parametrize("place", [0, 1, 2], ids=["the first", "one in the middle", "the last"])
    def test_the_neighbours_of_a_cancelled_entry_are_untouched(self, queue: TimerQueue, place: int) -> None:
        entries = scheduled(queue, [9, 9, 9])
        queue.cancel(entries.pop(place))
        queue.check_invariants()
        assert queue.advance(9) == entries

    def test_cancelling_what_is_not_waiting_is_false(self, queue: TimerQueue) -> None:
        never, fired, cancelled = TimerEntry(1), TimerEntry(2), TimerEntry(3)
        queue.schedule(fired)
        queue.schedule(cancelled)
        queue.cancel(cancelled)
        queue.advance(3)
        assert [queue.cancel(entry) for entry in (never, fired, cancelled)] == [False, False, False]
        assert len(queue) == 0

    def test_a_queue_whose_entries_were_all_cancelled_is_empty(self, queue: TimerQueue) -> None:
        for entry in scheduled(queue, EDGES):
            queue.cancel(entry)
        assert (len(queue), queue.next_tick) == (0, None)
        assert queue.advance(EDGES[-1]) == []
        queue.check_invariants()

    def test_what_is_cancelled_or_handed_out_is_held_no_longer(self, queue: TimerQueue) -> None:
        cancelled, fired, _ = scheduled(queue, [300, 4, 70_000])
        witnesses = [weakref.ref(cancelled), weakref.ref(fired)]
        queue.cancel(cancelled)
        queue.advance(4)
        gc.disable()  # by reference counts alone
        try:
            del cancelled, fired
            assert [witness() for witness in witnesses] == [None, None]
        finally:
            gc.enable()

    def test_emptied_buckets_are_freed_by_reference_counts_alone(self, queue: TimerQueue) -> None:
        gc.collect()
        gc.disable()
        try:
            for now in range(0, 3_000, 7):
                fired, cancelled = TimerEntry(now + 11), TimerEntry(now + 700)
                queue.schedule(fired)
                queue.schedule(cancelled)
                queue.advance(now)
                queue.cancel(cancelled)
                assert queue.next_tick is not None
            queue.advance(10_000)
            assert (len(queue), queue.next_tick) == (0, None)
            del fired, cancelled
            assert gc.collect() == 0
        finally:
            gc.enable()

    @pytest.mark.parametrize("edge", [2, 3, 20, 256], ids=lambda edge: f"beside {edge}")
    def test_adding_and_cancelling_for_ever_costs_no_memory(self, make_queue: MakeQueue, edge: int) -> None:
        queue = make_queue(start_tick=1)
        scheduled(queue, [edge])
        # In a wheel of that size this goes to a coarse bucket, which begins on the same tick as the fine one.
        entry = TimerEntry(2 * edge - 1)

        def add_and_cancel(rounds: int) -> int:
            for _ in range(rounds):
                queue.schedule(entry)
                queue.cancel(entry)
                assert queue.next_tick <= edge
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = add_and_cancel(10)
            assert add_and_cancel(2_000) - before < 4_000
        finally:
            tracemalloc.stop()

    # Limits.

    @pytest.mark.parametrize("limit", [0, -1, -(10**30)])
    def test_a_limit_below_one_is_refused_and_changes_nothing(self, queue: TimerQueue, limit: int) -> None:
        (entry,) = scheduled(queue, [5])
        with pytest.raises(ValueError, match=f"limit must be at least 1.*{limit}"):
            queue.advance(5, limit)
        assert (queue.now_tick, entry.scheduled) == (0, True)

    @pytest.mark.parametrize("limit", [1, 2, 3, 10, 1_000], ids=lambda limit: f"limit {limit}")
    def test_with_a_limit_all_come_in_order_a_part_at_a_time(self, queue: TimerQueue, limit: int) -> None:
        scheduled(queue, [*reversed(EDGES), *EDGES])
        first = queue.advance(EDGES[-1], limit)
        assert len(first) <= limit
        assert queue.now_tick == EDGES[-1]
        assert ticks_of(first + hand_out(queue, EDGES[-1], limit)) == sorted(2 * EDGES)
        assert len(queue) == 0

    def test_while_some_are_held_back_there_is_something_to_do_now(self, queue: TimerQueue) -> None:
        scheduled(queue, [3, 4, 5])
        assert len(queue.advance(100, limit=1)) + len(queue) == 3
        assert queue.next_tick <= 100

    @distances
    def test_what_a_limit_held_back_can_still_be_cancelled(self, queue: TimerQueue, distance: int) -> None:
        entries = scheduled(queue, [distance] * 4)
        out = queue.advance(distance, limit=1)
        for entry in entries[2:]:
            assert queue.cancel(entry) is True
        queue.check_invariants()
        assert out + hand_out(queue, distance, limit=1) == entries[:2]

    @distances
    def test_what_a_limit_held_back_can_be_put_off(self, queue: TimerQueue, distance: int) -> None:
        entries = scheduled(queue, [distance] * 4)
        out = queue.advance(distance, limit=1)
        put_off = entries[3]
        queue.cancel(put_off)
        put_off.deadline_tick = 2 * distance + 1
        assert queue.schedule(put_off) is True
        queue.check_invariants()
        assert out + hand_out(queue, distance, limit=1) == entries[:3]
        assert hand_out(queue, 2 * distance, limit=1) == []
        assert hand_out(queue, 2 * distance + 1, limit=1) == [put_off]

    @distances
    def test_new_entries_wait_behind_what_a_limit_held_back(self, queue: TimerQueue, distance: int) -> None:
        held_back = scheduled(queue, [distance] * 3)
        out = queue.advance(distance, limit=1)
        assert queue.schedule(TimerEntry(distance)) is False
        (later,) = scheduled(queue, [distance + 1])
        assert out + hand_out(queue, distance + 1, limit=1) == [*held_back, later]

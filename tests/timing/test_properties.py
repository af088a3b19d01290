"""For any sequence of calls, the wheels hand out what the sorted list does."""

import functools
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from purgatory_async.timing import HashedWheel, TimerEntry, TimerQueue, TimingWheel
from tests.machines import explore
from tests.timing.hand_out import hand_out, numbers_of
from tests.timing.sorted_queue import SortedQueue

# Mostly around the edges of small levels; now and then a long way off.
DISTANCES = st.one_of(
    st.integers(-2, 30),
    st.sampled_from([63, 64, 65, 399, 400, 401]),
    st.integers(0, 70_000),
    st.integers(0, 10**12),
)
STRIDES = st.one_of(st.integers(-3, 5), st.integers(0, 80), st.integers(0, 10**6))
LIMITS = st.one_of(st.none(), st.integers(1, 4), st.integers(1, 100))

QUEUES = [
    *(
        pytest.param(functools.partial(TimingWheel, size), id=f"TimingWheel of {size}")
        for size in (2, 3, 20, 256)
    ),
    *(
        pytest.param(functools.partial(HashedWheel, size), id=f"HashedWheel of {size}")
        for size in (2, 3, 20, 512)
    ),
]


class AgainstTheSortedList(RuleBasedStateMachine):
    """The same steps on a wheel and on the model; a payload is the entry's number in order of making."""

    pairs = Bundle("pairs")

    def __init__(self, make_queue: Callable[..., TimerQueue], start_tick: int = 0) -> None:
        super().__init__()
        self.queue = make_queue(start_tick=start_tick)
        self.model = SortedQueue(start_tick)
        self.made = 0

    @rule(target=pairs, distance=DISTANCES)
    def schedule_new(self, distance: int) -> tuple[TimerEntry[int], TimerEntry[int]]:
        tick, self.made = self.model.now_tick + distance, self.made + 1
        pair = TimerEntry(tick, self.made), TimerEntry(tick, self.made)
        self._schedule(pair)
        return pair

    @rule(pair=pairs, distance=DISTANCES)
    def schedule_again(self, pair: tuple[TimerEntry[int], TimerEntry[int]], distance: int) -> None:
        if pair[1].scheduled:
            with pytest.raises(ValueError, match="is scheduled already"):
                self.queue.schedule(pair[0])
            return
        for entry in pair:
            entry.deadline_tick = self.model.now_tick + distance
        self._schedule(pair)

    @rule(pair=pairs)
    def cancel(self, pair: tuple[TimerEntry[int], TimerEntry[int]]) -> None:
        assert self.queue.cancel(pair[0]) is self.model.cancel(pair[1])

    @rule(stride=STRIDES, limit=LIMITS)
    def advance(self, stride: int, limit: int | None) -> None:
        now = self.model.now_tick + stride
        handed_out = self.queue.advance(now, limit)
        if limit is None:
            assert numbers_of(handed_out) == numbers_of(self.model.advance(now))
        else:
            # The limit also counts what only moves, so there may be fewer than due; but these, in this order.
            assert len(handed_out) <= limit
            self.model.now_tick = max(now, self.model.now_tick)
            if handed_out:
                assert numbers_of(handed_out) == numbers_of(self.model.advance(now, len(handed_out)))

    @precondition(lambda self: self.model.next_tick is not None)
    @rule()
    def advance_to_the_next_deadline(self) -> None:
        tick = max(self.model.next_tick, self.model.now_tick)
        assert numbers_of(hand_out(self.queue, tick, limit=3)) == numbers_of(self.model.advance(tick))

    @invariant()
    def they_agree(self) -> None:
        self.queue.check_invariants()
        assert (self.queue.now_tick, len(self.queue)) == (self.model.now_tick, len(self.model))
        if self.model.next_tick is None:
            assert self.queue.next_tick is None
        else:
            assert self.queue.next_tick <= self.model.next_tick

    def _schedule(self, pair: tuple[TimerEntry[int], TimerEntry[int]]) -> None:
        assert self.queue.schedule(pair[0]) is self.model.schedule(pair[1])
        assert pair[0].scheduled is pair[1].scheduled


@pytest.mark.parametrize("start_tick", [0, 1_000_003], ids=["from 0", "from 1000003"])
@pytest.mark.parametrize("make_queue", QUEUES)
def test_a_wheel_and_the_sorted_list_never_disagree(
    make_queue: Callable[..., TimerQueue], start_tick: int
) -> None:
    explore(lambda: AgainstTheSortedList(make_queue, start_tick), examples=12, steps=30)


@pytest.mark.slow
@pytest.mark.parametrize("make_queue", QUEUES)
def test_a_wheel_agrees_with_the_sorted_list_in_long_runs(
    make_queue: Callable[..., TimerQueue],
) -> None:
    explore(lambda: AgainstTheSortedList(make_queue), examples=30, steps=120)

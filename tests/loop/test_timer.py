"""`Timer` at a glance: its life on a clock that only moves on demand. The rest is in ``test_timer_*``."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from purgatory_async import Timer, TimerHandle
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimerEntry, TimerQueue, TimingWheel
from tests.machines import explore
from tests.timing.sorted_queue import SortedQueue

QUEUES = [
    pytest.param(lambda: None, id="default queue"),
    pytest.param(lambda: TimingWheel(wheel_size=2), id="TimingWheel of 2"),
    pytest.param(lambda: TimingWheel(wheel_size=20, start_tick=77), id="TimingWheel of 20 from 77"),
    pytest.param(lambda: HashedWheel(wheel_size=3), id="HashedWheel of 3"),
    pytest.param(HashedWheel, id="HashedWheel of 512"),
    pytest.param(SortedQueue, id="a queue of one's own"),
]

any_queue = pytest.mark.parametrize("make_queue", QUEUES)

MakeQueue = Callable[[], TimerQueue | None]


@pytest.fixture
def timer(manual_clock: ManualClock) -> Timer:
    return Timer(clock=manual_clock)


# Settings.


@pytest.mark.parametrize("tick", [0, -0.001, 1e-7, 86_401, math.nan, math.inf, 10**400], ids=repr)
def test_a_tick_is_from_a_microsecond_to_a_day(tick: float) -> None:
    with pytest.raises(ValueError, match="tick must be from 1e-06 to 86400"):
        Timer(tick=tick)


@pytest.mark.parametrize("tick", [None, "0.001", True], ids=repr)
def test_a_tick_is_a_number(tick: object) -> None:
    with pytest.raises(TypeError, match=f"tick must be .*{type(tick).__name__}"):
        Timer(tick=tick)


@pytest.mark.parametrize("make_queue", QUEUES[1:])
def test_a_queue_in_use_is_refused(make_queue: Callable[[], TimerQueue]) -> None:
    queue = make_queue()
    queue.schedule(TimerEntry(1_000))
    with pytest.raises(ValueError, match="queue must be empty"):
        Timer(queue=queue)
    assert len(queue) == 1


def test_constructing_one_needs_no_loop_and_starts_nothing() -> None:
    timer = Timer()
    assert (timer.pending, timer.next_deadline, timer.closed) == (0, None, False)


# A life.


def test_its_queue_and_its_tick_can_be_looked_at(manual_clock: ManualClock) -> None:
    queue = TimingWheel(20)
    timer = Timer(tick=0.005, queue=queue, clock=manual_clock)
    assert timer.queue is queue
    assert timer.tick == 0.005
    timer.call_later(0.05, int)
    assert queue.levels()[0].buckets == ((10, 1),)
    for name in ("queue", "tick"):
        with pytest.raises(AttributeError):
            setattr(timer, name, None)
    assert isinstance(Timer().queue, TimingWheel)
    timer.close()


def test_pending_is_exact_inside_a_callback(manual_clock: ManualClock, timer: Timer) -> None:
    seen = []
    for _ in range(3):
        timer.call_later(1, lambda: seen.append(timer.pending))
    timer.call_later(2, int)
    manual_clock.advance(1)
    assert seen == [3, 2, 1]


def test_next_deadline_follows_the_earliest(manual_clock: ManualClock, timer: Timer) -> None:
    handles = [timer.call_later(delay, int) for delay in (0.2, 0.1)]
    seen = [timer.next_deadline]
    handles[1].cancel()
    seen.append(timer.next_deadline)
    handles[0].reschedule(0.05)
    seen.append(timer.next_deadline)
    manual_clock.advance(0.05)
    seen.append(timer.next_deadline)
    assert seen == [0.1, 0.2, 0.05, None]


@pytest.mark.parametrize("delay", [1e-9, 0.0005, 0.001, 0.2555, 0.256, 70.00001, 9_000, 1_000_000])
def test_next_deadline_is_ahead_and_not_past_the_earliest_tick(
    manual_clock: ManualClock, timer: Timer, delay: float
) -> None:
    manual_clock.advance(0.0123)
    handle = timer.call_later(delay, int)
    while not handle.fired:
        assert manual_clock.time() < timer.next_deadline < handle.when + 0.001
        manual_clock.advance(timer.next_deadline - manual_clock.time())


def test_its_repr_says_how_it_stands(timer: Timer) -> None:
    timer.call_later(5, int)
    pending = repr(timer)
    timer.close()
    assert "tick=0.001 pending=1" in pending
    assert "closed" in repr(timer)


# Any sequence of calls.

# A wheel with rounds looks in once a turn, so a day on three buckets of a millisecond would be 28 million wakeups.
DELAYS = st.one_of(
    st.sampled_from([0, -1, 0.0005, 0.001, 0.255, 0.256, 0.257, 1, math.inf]),
    st.floats(min_value=0, max_value=5),
)


class AgainstOneListOfDeadlines(RuleBasedStateMachine):
    """Every callback notes its number; the model is a dict of what each is to come at, in nanoseconds and order."""

    handles = Bundle("handles")

    def __init__(self, make_queue: MakeQueue) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.timer = Timer(queue=make_queue(), clock=self.clock)
        self.deadlines: dict[int, float] = {}
        self.asked = 0
        self.came: list[int] = []

    @rule(target=handles, delay=DELAYS)
    def call_later(self, delay: float) -> tuple[int, TimerHandle]:
        self.asked += 1
        number = self.asked
        handle = self.timer.call_later(delay, lambda: self.came.append(number))
        self.deadlines[number] = handle.when
        return number, handle

    @rule(handle=handles)
    def cancel(self, handle: tuple[int, TimerHandle]) -> None:
        assert handle[1].cancel() is (self.deadlines.pop(handle[0], None) is not None)

    @rule(handle=handles, delay=DELAYS)
    def reschedule(self, handle: tuple[int, TimerHandle], delay: float) -> None:
        number, waiting = handle
        assert waiting.reschedule(delay) is (number in self.deadlines)
        if number in self.deadlines:
            self.deadlines[number] = waiting.when

    @rule(seconds=st.one_of(st.sampled_from([0, 0.001, 0.256, 1]), st.floats(min_value=0, max_value=2)))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        now = self.clock.time()
        came, self.came = self.came, []
        whens = [self.deadlines.pop(number) for number in came]
        assert all(when <= now for when in whens), "early"
        assert all(when + 0.001 > now for when in self.deadlines.values()), "late"
        assert all(before - after < 0.001 for before, after in itertools.pairwise(whens)), "out of order"

    @invariant()
    def nothing_is_lost_and_nothing_comes_unasked(self) -> None:
        assert self.came == []
        assert self.timer.pending == len(self.deadlines)
        self.timer.check_invariants()
        earliest = min(self.deadlines.values(), default=math.inf)
        if earliest == math.inf:
            assert self.timer.next_deadline is None
        else:
            assert self.timer.next_deadline <= earliest + 0.001


@any_queue
def test_a_timer_and_a_list_of_deadlines_never_disagree(make_queue: MakeQueue) -> None:
    explore(lambda: AgainstOneListOfDeadlines(make_queue), examples=25, steps=30)

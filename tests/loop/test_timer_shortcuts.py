"""The shortcuts of a timer in use: a delay started again in the same tick, and when none may be taken."""

from collections.abc import Callable

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryFull, Timer
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimerEntry, TimerQueue, TimingWheel
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import World
from tests.timing.sorted_queue import SortedQueue

pytestmark = pytest.mark.asyncio

DELAY = 1.0
QUEUES = [TimingWheel, lambda: TimingWheel(2), HashedWheel, lambda: HashedWheel(3), SortedQueue]
IDS = ["timing wheel", "timing wheel of 2", "hashed wheel", "hashed wheel of 3", "sorted queue"]
any_queue = pytest.mark.parametrize("make_queue", QUEUES, ids=IDS)
MakeQueue = Callable[[], TimerQueue]
Start = Callable[[Timer, list[int], int], Callable[[], object]]


def by_call_later(timer: Timer, calls: list[int], number: int) -> Callable[[], object]:
    return timer.call_later(DELAY, calls.append, number).cancel


def by_watch(timer: Timer, calls: list[int], number: int) -> Callable[[], object]:
    class Noted(DelayedOperation[None]):
        def on_expiration(self) -> None:
            calls.append(number)

    operation = Noted(DELAY)
    Purgatory(timer=timer).try_complete_else_watch(operation, ["key"])
    return operation.cancel


any_start = pytest.mark.parametrize("start", [by_call_later, by_watch], ids=["call_later", "watch"])


@any_queue
@any_start
async def test_one_delay_again_and_again_is_counted_and_fires(
    world: World, make_queue: MakeQueue, start: Start
) -> None:
    timer, calls = world.timer(queue=make_queue()), []
    cancels = [start(timer, calls, number) for number in range(6)]
    timer.check_invariants()
    cancels[1]()
    cancels[4]()
    assert timer.pending == len(timer.queue) == 4
    timer.check_invariants()
    await world.run(DELAY)
    assert (calls, timer.pending) == ([0, 2, 3, 5], 0)
    timer.check_invariants()


@any_queue
@any_start
@pytest.mark.parametrize("other", [None, 0.5, 2.0], ids=["alone", "after another", "before another"])
async def test_a_delay_starts_again_after_its_bucket_was_dropped(
    make_queue: MakeQueue, start: Start, other: float | None
) -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock, queue=make_queue())
    if other is not None:
        timer.call_later(other, calls.append, -1)
    for cancel in [start(timer, calls, number) for number in range(3)]:
        cancel()
    assert (timer.next_deadline is None) == (
        other is None
    )  # reading it drops the empty buckets that come first
    for number in range(3):
        start(timer, calls, number)
        timer.check_invariants()
    assert timer.pending == 3 + (other is not None)
    await clock.run(DELAY)
    assert [number for number in calls if number >= 0] == [0, 1, 2]
    await clock.run(DELAY)
    assert (len(calls), timer.pending) == (3 + (other is not None), 0)


@any_queue
@any_start
async def test_a_delay_starts_again_after_its_tick_has_fired(make_queue: MakeQueue, start: Start) -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock, queue=make_queue())
    for number in range(4):
        start(timer, calls, 2 * number)
        start(timer, calls, 2 * number + 1)
        await clock.run(DELAY)
        assert calls == list(range(2 * number + 2))
        timer.check_invariants()


@any_start
async def test_the_same_delay_a_tick_later_ends_a_tick_later(start: Start) -> None:
    clock, calls = SteppedClock(), []
    timer = Timer(clock=clock)
    timer.call_later(0.9, int)
    for number in range(4):
        start(timer, calls, number)
        clock.move(0.0005)
    came = []
    for seconds in (0.9975, 0.0005, 0.001, 0.001):
        await clock.run(seconds)
        came.append(len(calls))
    assert came == [0, 1, 3, 4]


@pytest.mark.parametrize("zero", [0.0, -0.0, 0], ids=repr)
async def test_a_zero_delay_on_a_timer_in_use_needs_no_tick(world: World, zero: float) -> None:
    timer, calls = world.timer(), []
    for delay in (5.0, 5.0, zero, 5.0, zero):
        timer.call_later(delay, calls.append, delay)
    Purgatory(timer=timer).try_complete_else_watch(DelayedOperation(zero), ["key"])
    assert timer.pending == 6
    await world.run(0)
    assert (calls, timer.pending) == ([zero, zero], 3)
    timer.close()


@any_queue
@pytest.mark.parametrize("kind", [float, int])
async def test_a_limited_timer_counts_every_start(
    world: World, make_queue: MakeQueue, kind: Callable[[float], float]
) -> None:
    timer = world.timer(queue=make_queue(), max_pending=4)
    purgatory = Purgatory(timer=timer)
    delay = kind(DELAY)
    for _ in range(3):
        handles = [timer.call_later(delay, int), timer.call_later(delay, int)]
        operations = [DelayedOperation(delay), DelayedOperation(delay)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["key"])
        for use in (
            lambda: timer.call_later(delay, int),
            lambda: timer.call_later(2 * delay, int),
            lambda: purgatory.try_complete_else_watch(DelayedOperation(delay), ["key"]),
            lambda: purgatory.try_complete_else_watch(DelayedOperation(3 * delay), ["key"]),
        ):
            with pytest.raises(PurgatoryFull, match="4 are pending, max_pending is 4"):
                use()
            assert (timer.pending, purgatory.pending) == (4, 2)
        handles[0].cancel()
        operations[0].force_complete()
        assert timer.pending == 2
        timer.check_invariants()
        await world.run(DELAY)
        assert timer.pending == 0


class Uncounted(SortedQueue):
    """A queue that may not be counted once it is in use."""

    def __len__(self) -> int:
        assert not self.now_tick, "the entries are counted one by one"
        return super().__len__()


async def test_a_limited_timer_knows_how_many_wait_without_counting(world: World) -> None:
    timer = world.timer(queue=Uncounted(), max_pending=3)
    await world.run(DELAY)
    timer.call_later(0.0, int)
    await world.run(0)
    for _ in range(3):
        timer.call_later(DELAY, int)
    with pytest.raises(PurgatoryFull):
        timer.call_later(DELAY, int)
    assert (timer.queue.now_tick, timer.pending) == (1000, 3)


async def test_closing_a_limited_timer_empties_it(world: World) -> None:
    timer = world.timer(max_pending=3)
    purgatory = Purgatory(timer=timer)
    purgatory.try_complete_else_watch(DelayedOperation(0), ["key"])
    handle = timer.call_later(DELAY, int)
    timer.call_later(0, int)
    assert [len(timer.close()), timer.pending, purgatory.pending] == [2, 0, 0]
    assert handle.cancelled
    timer.check_invariants()


@pytest.mark.parametrize("delay", [70.0, 9_000.0, 1_000_000.0], ids=str)
async def test_advance_to_next_passes_what_only_moves(delay: float) -> None:
    clock, calls = ManualClock(), []
    timer = Timer(clock=clock)
    timer.call_later(delay, calls.append, "called")
    assert (clock.advance_to_next(), calls) == (delay, ["called"])
    assert clock.advance_to_next() is None


@pytest.mark.parametrize("gone", [0, 0.5, 70.0], ids=str)
async def test_advance_to_next_passes_what_was_called_off(gone: float) -> None:
    clock, calls = ManualClock(), []
    timer = Timer(clock=clock)
    purgatory = Purgatory(timer=timer)
    ended = DelayedOperation(gone)
    purgatory.try_complete_else_watch(ended, ["key"])
    ended.cancel()
    timer.call_later(gone, calls.append, "cancelled").cancel()
    timer.call_later(gone, calls.append, "put off").reschedule(100)
    assert (clock.advance_to_next(), calls) == (100.0, ["put off"])
    assert clock.advance_to_next() is None


class OnlyNext(SortedQueue):
    """As little as a queue must do: it sets ``_next`` while it holds an entry."""

    def schedule(self, entry: TimerEntry) -> bool:
        held = super().schedule(entry)
        entry._prev = None
        return held


async def test_what_a_queue_of_ones_own_holds_again_is_no_longer_due(world: World) -> None:
    timer, seen = world.timer(queue=OnlyNext()), []
    timer.call_later(DELAY, lambda: seen.append((other.reschedule(DELAY), timer.pending)))
    other = timer.call_later(DELAY, lambda: seen.append(timer.pending))
    await world.run(DELAY)
    await world.run(DELAY)
    assert seen == [(True, 1), 0]

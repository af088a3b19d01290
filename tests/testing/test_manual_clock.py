"""Time that moves on demand: everything due on the way happens, in order, each at its own time."""

from functools import partial
from math import inf, nan

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.clock import Clock
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimingWheel

Firing = tuple[str, float]


class Recorder:
    """A timer on a manual clock that notes what fired at what time."""

    def __init__(self, queue=None, start=0.0) -> None:
        self.clock = ManualClock(start)
        self.timer = Timer(clock=self.clock, queue=queue)
        self.fired: list[Firing] = []

    def call_later(self, delay: float, name: str):
        return self.timer.call_later(delay, lambda: self.fired.append((name, self.clock.time())))


queues = pytest.mark.parametrize(
    "new_queue",
    [TimingWheel, partial(TimingWheel, 2), HashedWheel, partial(HashedWheel, 2)],
    ids=["timing wheel", "smallest timing wheel", "hashed wheel", "smallest hashed wheel"],
)


def test_it_starts_at_zero_or_at_the_given_value() -> None:
    assert ManualClock().time() == 0.0
    assert ManualClock(12.5).time() == 12.5
    assert ManualClock(12.5).time_ns() == 12_500_000_000


def test_it_is_a_clock() -> None:
    assert isinstance(ManualClock(), Clock)


def test_it_stands_still_until_it_is_moved() -> None:
    recorder = Recorder()
    recorder.call_later(0.001, "a")
    recorder.call_later(0, "b")
    assert recorder.fired == []
    assert recorder.clock.time() == 0.0


@queues
def test_due_entries_fire_in_order_each_at_its_own_time(new_queue) -> None:
    recorder = Recorder(new_queue())
    for name, delay in {"late": 2.5, "first": 0.001, "also first": 0.001, "middle": 1.0}.items():
        recorder.call_later(delay, name)
    recorder.clock.advance(10)
    assert recorder.fired == [("first", 0.001), ("also first", 0.001), ("middle", 1.0), ("late", 2.5)]
    assert recorder.clock.time() == 10.0


@queues
def test_nothing_fires_a_nanosecond_early(new_queue) -> None:
    recorder = Recorder(new_queue())
    recorder.call_later(1.0, "a")
    recorder.clock.advance(0.999_999_999)
    assert recorder.fired == []
    recorder.clock.advance(1e-9)
    assert recorder.fired == [("a", 1.0)]


def test_advancing_by_zero_fires_what_is_due_now() -> None:
    recorder = Recorder(start=5.0)
    for name, delay in {"zero": 0, "negative": -3, "later": 0.001}.items():
        recorder.call_later(delay, name)
    recorder.clock.advance(0)
    assert recorder.fired == [("negative", 5.0), ("zero", 5.0)]  # in the order of their times
    assert recorder.clock.time() == 5.0


def test_advancing_by_nothing_expires_an_operation_without_time() -> None:
    clock = ManualClock()
    purgatory = Purgatory(timer=Timer(clock=clock))
    operation: DelayedOperation[None] = DelayedOperation(timeout=0)
    purgatory.try_complete_else_watch(operation, ["door"])
    assert operation.outcome is None
    clock.advance(0)
    assert operation.outcome is Outcome.EXPIRED


def test_what_a_callback_adds_on_the_way_fires_on_the_way() -> None:
    recorder = Recorder()
    recorder.timer.call_later(1, recorder.call_later, 1, "one second after that")
    recorder.timer.call_later(1, recorder.call_later, 0, "at once")
    recorder.clock.advance(2)
    assert recorder.fired == [("at once", 1.0), ("one second after that", 2.0)]


def test_100_000_equal_deadlines_have_all_fired_on_return() -> None:
    recorder = Recorder()
    for number in range(100_000):
        recorder.call_later(1.0, str(number))
    recorder.clock.advance(1)
    assert recorder.fired == [(str(number), 1.0) for number in range(100_000)]


def test_what_was_cancelled_does_not_fire() -> None:
    recorder = Recorder()
    recorder.call_later(1.0, "a").cancel()
    recorder.clock.advance(2)
    assert recorder.fired == []


@queues
def test_advance_to_next_stops_at_deadlines_not_at_cascades(new_queue) -> None:
    recorder = Recorder(new_queue())
    # Far enough for several levels of the smallest wheel, and for several turns of it.
    recorder.call_later(0.777, "a")
    recorder.call_later(0.5, "b")
    assert recorder.clock.advance_to_next() == 0.5
    assert recorder.clock.advance_to_next() == 0.777
    assert recorder.fired == [("b", 0.5), ("a", 0.777)]


def test_advance_to_next_fires_all_of_that_instant_only() -> None:
    recorder = Recorder()
    for name, delay in {"a": 1.0, "b": 1.0, "c": 1.001}.items():
        recorder.call_later(delay, name)
    assert recorder.clock.advance_to_next() == 1.0
    assert recorder.fired == [("a", 1.0), ("b", 1.0)]
    assert recorder.timer.pending == 1


def test_advance_to_next_has_nowhere_to_go_when_nothing_is_due() -> None:
    recorder = Recorder()
    assert recorder.clock.advance_to_next() is None
    recorder.call_later(inf, "never")
    assert recorder.clock.advance_to_next() is None
    assert recorder.clock.time() == 0.0


@pytest.mark.parametrize("delay", [0, 1.0], ids=["without time", "in a second"])
def test_advance_to_next_does_not_stop_at_cancelled_entries(delay: float) -> None:
    recorder = Recorder()
    recorder.call_later(delay, "cancelled").cancel()
    recorder.call_later(5.0, "a")
    assert recorder.clock.advance_to_next() == 5.0
    assert recorder.fired == [("a", 5.0)]
    assert recorder.clock.advance_to_next() is None


def test_advance_to_next_does_not_approach_cancelled_entries() -> None:
    recorder = Recorder()
    recorder.clock.call_at_ns(1_000_000_000, print).cancel()
    assert recorder.clock.advance_to_next() is None
    assert recorder.clock.time() == 0.0


def test_advance_to_next_returns_the_tick_of_the_deadline() -> None:
    recorder = Recorder()
    recorder.call_later(0.0015, "a")
    assert recorder.clock.advance_to_next() == 0.002
    assert recorder.fired == [("a", 0.002)]


def test_a_nested_advance_fires_all_that_is_due_on_return() -> None:
    recorder = Recorder()
    inside: list[Firing] = []

    def advance_on() -> None:
        recorder.clock.advance(10)
        inside.extend(recorder.fired)

    recorder.timer.call_later(1, advance_on)
    recorder.call_later(1, "beside it")
    recorder.call_later(5, "on the way")
    recorder.call_later(12, "after it")
    recorder.clock.advance(1)
    assert inside == [("beside it", 1.0), ("on the way", 5.0)]
    assert recorder.fired == inside
    # Time never goes back, also not to where the outer call was heading.
    assert recorder.clock.time() == 11.0
    recorder.clock.advance(1)
    assert recorder.fired[-1] == ("after it", 12.0)


def test_entries_due_after_a_nested_advance_fire_in_the_outer() -> None:
    recorder = Recorder()

    def advance_on() -> None:
        recorder.clock.advance(10)
        recorder.call_later(0, "due now")

    recorder.timer.call_later(1, advance_on)
    recorder.clock.advance(1)
    assert recorder.fired == [("due now", 11.0)]


def test_timers_that_share_a_clock_fire_in_one_order() -> None:
    clock = ManualClock()
    fired: list[str] = []
    timers = [Timer(clock=clock), Timer(clock=clock, tick=0.01)]
    for timer, name, delay in (
        (timers[1], "second", 0.02),
        (timers[0], "first", 0.01),
        (timers[0], "third", 0.03),
    ):
        timer.call_later(delay, fired.append, name)
    clock.advance(1)
    assert fired == ["first", "second", "third"]


bad_moves = pytest.mark.parametrize(
    ("value", "error", "named"),
    [
        (-1, ValueError, "-1"),
        (-1e-9, ValueError, "-1e-09"),
        (nan, ValueError, "nan"),
        (inf, ValueError, "inf"),
        (-inf, ValueError, "-inf"),
        (3_155_760_001, ValueError, "3155760001"),
        (10**400, ValueError, "1329 bits"),
        (True, TypeError, "bool"),
        ("1", TypeError, "str"),
        (None, TypeError, "NoneType"),
    ],
    ids=str,
)


@bad_moves
def test_a_move_that_is_none_is_refused_and_moves_nothing(value, error, named) -> None:
    recorder = Recorder()
    recorder.call_later(0, "a")
    with pytest.raises(error, match=named):
        recorder.clock.advance(value)
    assert recorder.clock.time() == 0.0
    assert recorder.fired == []


@pytest.mark.parametrize("start", [nan, inf, -inf, "0", None, True], ids=repr)
def test_a_start_that_is_no_finite_number_is_refused(start) -> None:
    with pytest.raises((TypeError, ValueError), match="start"):
        ManualClock(start)


def test_a_wakeup_that_was_called_off_does_not_come() -> None:
    clock = ManualClock()
    woken: list[str] = []
    clock.call_at_ns(1, lambda: woken.append("a")).cancel()
    clock.call_at_ns(1, lambda: woken.append("b"))
    clock.advance(1)
    assert woken == ["b"]


def test_its_repr_tells_the_time() -> None:
    clock = ManualClock()
    clock.advance(1.5)
    assert repr(clock) == "<ManualClock at 1.5 s>"

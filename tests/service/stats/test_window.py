"""What happened lately: quantiles of the last minute, rates and history of whole seconds, all from plain counts."""

import datetime as dt
import math
import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.durable.stats.recent import Recent, Window
from purgatory_async.testing import ManualClock

NS = 1_000_000_000
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ACCURACY = 0.045


def exact(delays, share):
    """The smallest delay that so large a share of all is not above."""
    return sorted(delays)[math.ceil(share * len(delays)) - 1]


@given(st.lists(st.floats(1e-5, 3e9), min_size=1, max_size=300))
def test_a_quantile_is_within_its_promise_of_the_true_one(delays):
    window = Window()
    for delay in delays:
        window.observe(delay, 0)
    found = window.delay(0)
    assert found.count == len(delays)
    assert found.p50 == pytest.approx(exact(delays, 0.5), rel=ACCURACY, abs=1e-9)
    assert found.p99 == pytest.approx(exact(delays, 0.99), rel=ACCURACY, abs=1e-9)
    assert found.max == pytest.approx(max(delays), abs=1e-9)
    assert found.p50 <= found.p99 <= found.max


@pytest.mark.parametrize("delay", [0.0, 1e-9, 9.9e-6])
def test_what_is_hardly_there_is_not_more_than_it_was(delay):
    window = Window()
    window.observe(delay, 0)
    assert window.delay(0).p50 == window.delay(0).max == delay


def test_a_delay_counts_for_55_to_60_seconds():
    for phase in range(50):
        window, at = Window(), phase * NS // 10
        window.observe(1.0, at)
        assert window.delay(at + 55 * NS).count == 1
        assert window.delay(at + 60 * NS).count == 0
        for later in range(610):
            now = at + later * NS // 10
            assert window.delay(now).count == (now - at <= Window.seconds(now) * NS)


def test_what_is_old_goes_also_when_nothing_new_comes():
    window = Window()
    window.observe(7.0, 0)
    assert window.delay(3600 * NS) == window.delay(7200 * NS)
    assert (window.delay(3600 * NS).count, window.delay(3600 * NS).p99) == (0, None)
    window.observe(1.0, 3600 * NS)
    assert (window.delay(3600 * NS).count, window.delay(3600 * NS).max) == (1, 1.0)


def test_a_slow_minute_is_seen_at_once_and_forgotten_after():
    window, medians = Window(), []
    for second in range(600):
        window.observe(2.0 if 300 <= second < 360 else 0.01, second * NS)
        medians.append(window.delay(second * NS).p50 > 1)
    assert medians.index(True) <= 330
    assert not any(medians[390:])


class World:
    """A purgatory that is watched, and what really happened in it, second by second."""

    def __init__(self, start=0.0):
        self.clock = ManualClock(start)
        self.timer = Timer(clock=self.clock)
        self.recent = Recent(self.timer)
        self.purgatory = Purgatory(timer=self.timer, observer=SimpleNamespace(notify=self.notify))
        self.seen = Counter()
        self.pending_at_end = {}

    def notify(self, event):
        self.recent.notify(event)
        kind = type(event).__name__
        name = {"OperationSubmitted": "submitted", "KeySignalled": "signals"}.get(kind) or event.outcome.value
        self.seen[event.at_ns // NS, name] += 1

    def advance(self, seconds):
        """In small steps, so that each second's end is met."""
        until = self.clock.time() + seconds
        while self.clock.time() < until - 1e-9:
            second = self.clock.time_ns() // NS
            self.clock.advance(min(until, second + 1) - self.clock.time())
            if self.clock.time_ns() // NS > second:
                self.pending_at_end[second] = self.purgatory.pending

    def history(self):
        return self.recent.history(self.purgatory.pending, NOON)


@pytest.fixture
def world():
    world = World()
    yield world
    world.purgatory.close()


COLUMNS = ("submitted", "completed", "expired", "cancelled", "failed", "closed", "signals")


@pytest.mark.parametrize("start", [0.0, 17.25, 1e6 + 0.999])
def test_the_history_is_what_happened_in_each_whole_second(start):
    dice, world, operations = random.Random(int(start)), World(start), []
    first = math.ceil(start)
    for _ in range(1500):
        choice = dice.random()
        if choice < 0.4:
            operation = DelayedOperation(dice.choice([None, 0.0, 0.3, 2.0]))
            world.purgatory.try_complete_else_watch(operation, [dice.choice("ab")])
            operations.append(operation)
        elif choice < 0.5:
            world.purgatory.complete_for_key(dice.choice("abc"))
        elif choice < 0.6 and operations:
            end = dice.choice([lambda op: op.cancel(), lambda op: op.fail(ValueError())])
            end(operations.pop(dice.randrange(len(operations))))
        elif choice < 0.99:
            world.advance(dice.random() / 8)
        else:
            world.advance(dice.choice([3.5, 70]))
        history, now = world.history(), world.clock.time_ns() // NS
        seconds = range(max(first, now - 60), now)
        for name in COLUMNS:
            assert getattr(history, name) == [world.seen[second, name] for second in seconds]
        assert history.pending == [world.pending_at_end[second] for second in seconds]
    world.purgatory.close()


def test_the_history_has_60_seconds_even_when_all_are_busy(world):
    for second in range(70):
        for _ in range(second):
            world.purgatory.complete_for_key("a")
        world.advance(1)
    world.purgatory.complete_for_key("a")
    assert world.history().signals == list(range(10, 70))


def test_the_history_ends_with_the_last_whole_second(world):
    world.advance(2.25)
    assert world.history().until == NOON - dt.timedelta(seconds=0.25)
    assert len(world.history().pending) == 2


def test_in_the_first_second_there_is_no_history_and_no_rate(world):
    world.purgatory.complete_for_key("a")
    world.advance(0.9)
    assert world.history().signals == []
    assert (world.recent.rates().window, world.recent.rates().signals) == (0, 0.0)


def test_a_second_that_began_before_the_start_is_no_whole_one():
    world = World(10.5)
    world.purgatory.complete_for_key("a")
    world.advance(0.6)
    assert world.history().signals == []
    world.advance(1)
    assert world.history().signals == [0]


def test_rates_are_those_of_the_last_ten_whole_seconds(world):
    for second in range(30):
        for _ in range(second):
            world.purgatory.complete_for_key("a")
        world.advance(1)
    rates = world.recent.rates()
    assert (rates.window, rates.signals) == (10, sum(range(20, 30)) / 10)
    world.purgatory.complete_for_key("a")
    assert world.recent.rates() == rates  # the second that is not over does not count
    world.advance(3600)
    assert (world.recent.rates().window, world.recent.rates().signals) == (10, 0.0)


def test_just_after_the_start_rates_are_of_what_there_was(world):
    world.purgatory.complete_for_key("a")
    world.advance(2)
    assert (world.recent.rates().window, world.recent.rates().signals) == (2, 0.5)


def test_waits_and_lateness_are_those_of_the_operations(world):
    for timeout in (1.0, 2.0, 4.0):
        world.purgatory.try_complete_else_watch(DelayedOperation(timeout), ["a"])
    world.clock.advance(3)
    world.purgatory.complete_for_key("a")
    delays = world.recent.delays()
    assert (delays.wait.count, delays.lateness.count, delays.loop_lag.count) == (3, 2, 0)
    assert delays.wait.max == pytest.approx(3, abs=0.001)
    assert delays.wait.p50 == pytest.approx(2, rel=ACCURACY)
    assert delays.lateness.max <= 0.001


def test_the_window_of_the_delays_says_how_long_it_is(world):
    assert world.recent.delays().window == 0
    world.advance(7)
    assert world.recent.delays().window == 7
    world.advance(93)
    assert world.recent.delays().window == 55
    world.advance(4)
    assert world.recent.delays().window == 59


def test_the_loops_lag_is_noted_with_its_longest(world):
    for lag in (0.001, 0.002, 0.25):
        world.recent.note_lag(lag)
    assert world.recent.delays().loop_lag.max == 0.25

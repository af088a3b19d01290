"""The simulated timer, against a plain one for each operation and against the wheel itself."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.pipeline.kernels.wheel_sim import NEVER, Setting, Totals, Waits, simulate
from purgatory_async.timing import TimerEntry, TimingWheel

LAST = 400
SETTINGS = st.builds(
    Setting,
    timeout_ns=st.none() | st.integers(0, 120),
    tick_ns=st.integers(1, 40),
    wheel_size=st.integers(2, 6),
)


@st.composite
def lives(draw):
    """Operations as (submit, own timeout, natural end, completes, recorded to have ended so)."""
    submit = draw(st.integers(0, LAST))
    end = draw(st.just(NEVER) | st.integers(submit, LAST))
    ended = end < NEVER and draw(st.booleans())
    return submit, draw(st.just(NEVER) | st.integers(0, 120)), end, draw(st.booleans()), ended


def columns(operations):
    submit, timeout, end, completed, ended = zip(*operations, strict=True)
    return Waits.of(submit, end, completed, LAST, timeout_ns=timeout, ended=ended)


def one_by_one(operations, setting):
    """The rules as one would write them down."""
    counts = dict.fromkeys(("operations", "completed", "expired", "pending"), 0)
    sums = dict.fromkeys(("pending_ns", "lateness_ns", "decided_by_lateness"), 0)
    for submit, own, end, completes, ended in operations:
        timeout = own if own == NEVER or setting.timeout_ns is None else setting.timeout_ns
        deadline = NEVER if own == NEVER else ceil((submit + timeout) / setting.tick_ns) * setting.tick_ns
        at_once = completes and end == submit
        in_time = end < deadline or at_once or (not completes and end == deadline)
        stop = end if in_time else deadline
        counts["operations"] += 1
        sums["pending_ns"] += min(stop, LAST) - submit
        if stop > LAST:
            counts["pending"] += 1
        elif not in_time:
            counts["expired"] += 1
            sums["lateness_ns"] += deadline - submit - timeout
            own_deadline = ceil((submit + own) / setting.tick_ns) * setting.tick_ns
            sums["decided_by_lateness"] += ended and end >= own_deadline
        elif completes:
            counts["completed"] += 1
    return counts | sums


@given(st.lists(lives(), min_size=1, max_size=20), st.lists(SETTINGS, min_size=1, max_size=4))
def test_every_operation_ends_as_a_timer_of_its_own_would_end_it(operations, settings):
    for setting, totals in zip(settings, simulate(columns(operations), settings), strict=True):
        expected = one_by_one(operations, setting)
        assert {name: getattr(totals, name) for name in expected} == expected


@given(st.integers(0, 300), st.integers(1, 400), st.integers(0, 500), st.integers(2, 5), st.integers(1, 7))
def test_an_entry_is_inserted_as_often_as_the_wheel_does_it(submit, timeout, lived, wheel_size, tick):
    end = submit + lived
    (totals,) = simulate(Waits.of([submit], [end], [True], 10_000), [Setting(timeout, tick, wheel_size)])
    expected = (
        0
        if lived == 0
        else inserts_of_the_wheel(submit // tick, -(-(submit + timeout) // tick), end // tick, wheel_size)
    )
    assert totals.inserts == expected


def inserts_of_the_wheel(now_tick, deadline_tick, end_tick, wheel_size):
    """Let a real wheel run tick by tick, and count the levels an entry comes down."""
    wheel = TimingWheel(wheel_size, start_tick=now_tick)
    entry = TimerEntry(deadline_tick)
    if not wheel.schedule(entry):
        return 0
    level = depth(wheel, wheel_size)
    inserts = 1
    for tick in range(now_tick + 1, min(end_tick, deadline_tick) + 1):
        below = -1 if wheel.advance(tick) else depth(wheel, wheel_size)
        inserts += level - max(below, 0)
        level = below
    return inserts


def depth(wheel, wheel_size):
    ((width, _, _),) = wheel.buckets()
    return next(level for level in range(20) if wheel_size**level == width)


def test_operations_that_have_no_timeout_get_none():
    (totals,) = simulate(Waits.of([0, 0], NEVER, False, LAST, timeout_ns=[NEVER, 50]), [Setting(100, 10, 8)])
    assert totals == Totals(operations=2, expired=1, pending=1, pending_ns=LAST + 100, inserts=2)


def test_no_operations_are_no_trouble():
    assert simulate(Waits.of([], [], [], []), [Setting(100, 10, 8)]) == [Totals()]


@pytest.mark.parametrize(
    ("end", "completes", "counts"),
    [
        pytest.param(99, True, (1, 0), id="a completion before the deadline"),
        pytest.param(100, True, (0, 1), id="a completion on the deadline is too late"),
        pytest.param(100, False, (0, 0), id="a cancellation on the deadline stands"),
        pytest.param(101, False, (0, 1), id="a cancellation after the deadline is too late"),
    ],
)
def test_which_is_first_at_the_deadline(end, completes, counts):
    (totals,) = simulate(Waits.of([1], [end], [completes], LAST), [Setting(95, 10, 8)])
    assert (totals.completed, totals.expired) == counts

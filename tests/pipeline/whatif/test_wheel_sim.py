"""The simulated timer, against a plain one for each operation and against the wheel itself."""

from collections import defaultdict
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.pipeline.whatif.wheel_sim import NEVER, Setting, Totals, Waits, simulate
from purgatory_async.pipeline.workload import Workload
from purgatory_async.timing import TimerEntry, TimingWheel

LAST = 400
MS = 1_000_000
SETTINGS = st.builds(
    Setting,
    timeout_ns=st.none() | st.integers(0, 120),
    tick_ns=st.integers(1, 40),
    wheel_size=st.integers(2, 6),
)


@st.composite
def lives(draw):
    """Operations as (submit, own timeout, natural end, completes, recorded to have ended so, moved, new deadline)."""
    submit = draw(st.integers(0, LAST))
    end = draw(st.just(NEVER) | st.integers(submit, LAST))
    ended = end < NEVER and draw(st.booleans())
    timeout, completes, moved, due = (
        draw(st.just(NEVER) | st.integers(0, 120)),
        draw(st.booleans()),
        NEVER,
        NEVER,
    )
    if end > submit and draw(st.booleans()):
        moved = draw(st.integers(submit, min(end, LAST)))
        due = draw(st.just(NEVER) | st.integers(moved, LAST + 50))
    return submit, timeout, end, completes, ended, moved, due


def columns(operations):
    submit, timeout, end, completed, ended, moved, due = zip(*operations, strict=True)
    return Waits.of(submit, end, completed, LAST, timeout_ns=timeout, ended=ended, moved_ns=moved, due_ns=due)


def rounded(due, tick_ns):
    return NEVER if due == NEVER else ceil(due / tick_ns) * tick_ns


def one_by_one(operations, setting):
    """The rules as one would write them down."""
    counts = dict.fromkeys(("operations", "completed", "expired", "pending"), 0)
    sums = dict.fromkeys(("pending_ns", "lateness_ns", "decided_by_lateness"), 0)
    for submit, own, end, completes, ended, moved, new in operations:
        timeout = own if own == NEVER or setting.timeout_ns is None else setting.timeout_ns
        due = NEVER if own == NEVER else submit + timeout
        if moved < rounded(due, setting.tick_ns):
            due = new
        deadline = rounded(due, setting.tick_ns)
        at_once = completes and end == submit
        in_time = end < deadline or at_once or (not completes and end == deadline)
        stop = end if in_time else deadline
        counts["operations"] += 1
        sums["pending_ns"] += min(stop, LAST) - submit
        if stop > LAST:
            counts["pending"] += 1
        elif not in_time:
            counts["expired"] += 1
            sums["lateness_ns"] += deadline - due
            own_deadline = rounded(NEVER if own == NEVER else submit + own, setting.tick_ns)
            if moved < own_deadline:
                own_deadline = rounded(new, setting.tick_ns)
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


def test_inserts_are_those_of_a_plain_wheel_counted_by_hand():
    # Kafka's rule is the other one in use: an entry that is due when its bucket begins is not put anywhere again.
    load = Workload(requests=5_000, rate=10_000, p50=0.2, p75=0.4, timeout=0.05, keys=1, key_space=9, seed=1)
    rows = load.rows(0, 0)
    submits, latencies = (rows[name].to_numpy() for name in ("submit_ns", "latency_ns"))
    setting = Setting(50_000_000, 1_000_000, 20)
    (totals,) = simulate(Waits.of(submits, submits + latencies, True, NEVER), [setting])
    lives = [
        (submit // MS, -(-submit // MS) + 50, (submit + latency) // MS)
        for submit, latency in zip(submits.tolist(), latencies.tolist(), strict=True)
    ]
    assert totals.inserts == puts_of_a_plain_wheel(lives, 20, puts_due=True)
    by_kafka = puts_of_a_plain_wheel(lives, 20, puts_due=False)
    assert 0.02 < totals.inserts / by_kafka - 1 < 0.03


def puts_of_a_plain_wheel(lives, wheel_size, *, puts_due):
    """Keep entries in lists by level and first tick, tick by tick, and count each time one is put into a list.

    Args:
        lives: The ticks of submission, deadline and end of each entry; the end is after the deadline if it expires.
        wheel_size: The size of the wheel.
        puts_due: Whether an entry that is due when its bucket begins comes down like any other.
    """
    puts, buckets = 0, defaultdict(list)

    def put(entry, level):
        """Put an entry into its bucket of a level."""
        nonlocal puts
        puts += 1
        width = wheel_size**level
        buckets[level, entry[1] // width * width].append(entry)

    for tick in range(max(deadline for _, deadline, _ in lives) + 1):
        for level in (2, 1):
            for entry in buckets.pop((level, tick), ()):
                if entry[2] >= tick and (puts_due or entry[1] > tick):
                    put(entry, level - 1)
        for entry in lives:
            if entry[0] == tick:
                put(entry, next(n for n in range(3) if entry[1] - tick < wheel_size ** (n + 1)))
    return puts


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

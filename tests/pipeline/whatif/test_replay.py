"""Recorded operations run again: with the recorded setting they end as they did.

The journals here come from a real purgatory on a manual clock. The tests record them themselves, so that nothing is
compared with itself.
"""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.events import KeySignalled, OperationEnded, OperationRescheduled, OperationSubmitted
from purgatory_async.journal.schema import NO_SUM
from purgatory_async.pipeline.whatif.replay import recorded as waits_of
from purgatory_async.pipeline.whatif.replay import replay, replay_prefixes
from purgatory_async.pipeline.whatif.wheel_sim import Setting
from purgatory_async.testing import ManualClock
from purgatory_async.timing import TimingWheel

MS = 1_000_000
KEYS = "abc"
TIMEOUT_NS = 25 * MS
WHEEL = 3


class Summed(DelayedOperation):
    """Completes when the signals on its keys, counted after it began to wait, sum up to what it needs."""

    __slots__ = ("come", "needed")

    def __init__(self, needed, timeout):
        super().__init__(timeout)
        self.needed, self.come = needed, 0

    def try_complete(self):
        return self.come >= self.needed and self.force_complete()


class Held(ManualClock):
    """A clock whose wakeups can be held back, as by a loop that is busy."""

    def __init__(self):
        super().__init__()
        self.held = False

    def move(self, ns):
        if self.held:
            self._now_ns += ns
        else:
            self.advance(ns / 1e9)


def deadline_of(event):
    return None if event.timeout_ns is None else event.at_ns + event.timeout_ns


class Recording:
    """What a journal would have, as plain rows."""

    def __init__(self):
        self.seq = 0
        self.operations: dict[int, dict] = {}
        self.signals: list[dict] = []
        self.weights: dict[str, int] = {}
        self.last_ns = 0

    def notify(self, event):
        self.seq += 1
        self.last_ns = event.at_ns
        if isinstance(event, OperationSubmitted):
            needed = getattr(event.operation, "needed", NO_SUM)
            row = {
                "submit_seq": self.seq,
                "submit_ns": event.at_ns,
                "keys": list(event.keys),
                "needed": needed,
            }
            row |= {"timeout_ns": event.timeout_ns, "outcome": None, "end_ns": None}
            row |= {"rescheduled_ns": None, "deadline_ns": deadline_of(event)}
            self.operations[event.operation_id] = row
        elif isinstance(event, OperationRescheduled):
            row = self.operations[event.operation_id]
            first_ns = event.at_ns if row["rescheduled_ns"] is None else row["rescheduled_ns"]
            row |= {"rescheduled_ns": first_ns, "deadline_ns": deadline_of(event)}
        elif isinstance(event, KeySignalled):
            row = {"seq": self.seq, "mono_ns": event.at_ns, "key": event.key}
            self.signals.append(row | {"n": self.weights.get(event.key, 1)})
        elif isinstance(event, OperationEnded):
            row = self.operations[event.operation_id]
            row |= {"outcome": event.outcome.value, "end_ns": event.at_ns}

    def tables(self):
        rows = [row | {"last_ns": self.last_ns} for row in self.operations.values()]
        names = (
            "submit_seq",
            "submit_ns",
            "timeout_ns",
            "deadline_ns",
            "rescheduled_ns",
            "end_ns",
            "last_ns",
        )
        integers = [(name, pa.int64()) for name in names]
        operations = pa.schema(
            [*integers, ("keys", pa.list_(pa.string())), ("needed", pa.int32()), ("outcome", pa.string())]
        )
        signals = pa.schema(
            [("seq", pa.int64()), ("mono_ns", pa.int64()), ("key", pa.string()), ("n", pa.int32())]
        )
        return pa.Table.from_pylist(rows, operations), pa.Table.from_pylist(self.signals, signals)


watched = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
moves = st.tuples(st.just("move"), st.integers(0, 30 * MS))
ANY_STEP = st.one_of(
    st.tuples(st.just("submit"), watched, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("signal"), st.sampled_from(KEYS), st.integers(0, 3)),
    moves,
    moves,
    st.tuples(st.sampled_from(["cancel", "complete"]), st.sampled_from(KEYS)),
)
STEPS = st.lists(ANY_STEP, max_size=40)
RESCHEDULED = st.tuples(st.just("reschedule"), st.sampled_from(KEYS), st.none() | st.integers(1, 60 * MS))
MOVING_STEPS = st.lists(st.one_of(ANY_STEP, RESCHEDULED), max_size=40)


def record(steps, tick_ns, timeout_ns=TIMEOUT_NS, *, late=False):
    """Let a purgatory do the steps; with ``late`` its timer is held up at every other move."""
    clock, recording = Held(), Recording()
    timer = Timer(tick=tick_ns / 1e9, clock=clock, queue=TimingWheel(WHEEL))
    purgatory = Purgatory("test", timer=timer, observer=recording)
    for number, (verb, *arguments) in enumerate(steps):
        if verb == "submit":
            keys, needed, timed = arguments
            purgatory.try_complete_else_watch(Summed(needed, timeout_ns / 1e9 if timed else None), keys)
        elif verb == "move":
            clock.held = late and number % 2 == 1
            clock.move(arguments[0])
        elif verb == "signal":
            signal(purgatory, recording, *arguments)
        elif verb == "reschedule":
            key, new_ns = arguments
            for operation in purgatory.operations(key):
                purgatory.reschedule(operation, None if new_ns is None else new_ns / 1e9)
        elif verb == "cancel":
            purgatory.cancel_for_key(*arguments)
        else:
            recording.weights[arguments[0]] = 0  # what it completes, it completes without a sum
            purgatory.complete_for_key(*arguments)
    clock.held = False
    clock.move(0)
    purgatory.check_and_complete("the end")
    result = recording.tables()
    purgatory.close()
    timer.close()
    return result


def signal(purgatory, recording, key, n):
    for operation in purgatory.operations(key):
        operation.come += n
    recording.weights[key] = n
    purgatory.check_and_complete(key)


def recorded(operations):
    counts = Counter(operations["outcome"].to_pylist())
    return counts["completed"], counts["expired"], counts[None]


@given(MOVING_STEPS, st.sampled_from([1 * MS, 7 * MS, 10 * MS]))
def test_the_recorded_setting_replays_every_journal_exactly(steps, tick_ns):
    operations, signals = record(steps, tick_ns)
    (totals,) = replay(operations, signals, [Setting(TIMEOUT_NS, tick_ns, WHEEL)])
    assert (totals.completed, totals.expired, totals.pending) == recorded(operations)
    assert totals.decided_by_lateness == 0


PREFIXED = {"a": "x:a", "b": "x/b:c", "c": "c"}


def prefixed(table, name):
    """A table with the keys of `PREFIXED`."""
    rows = [
        row
        | {name: [PREFIXED[key] for key in row[name]] if name == "keys" else PREFIXED.get(row[name], "y:")}
        for row in table.to_pylist()
    ]
    return pa.Table.from_pylist(rows, table.schema)


@given(MOVING_STEPS, st.sampled_from([1 * MS, 7 * MS]))
def test_the_recorded_setting_is_exact_for_each_prefix(steps, tick_ns):
    operations, signals = record(steps, tick_ns)
    operations, signals = prefixed(operations, "keys"), prefixed(signals, "key")
    of_prefixes = {}
    for row in operations.to_pylist():
        for prefix in {"x" if key.startswith("x") else None for key in row["keys"]}:
            of_prefixes.setdefault(prefix, []).append(row)
    waits = waits_of(operations, signals)
    # Another setting beside it, so that a group's totals cannot be taken from the wrong place.
    settings = [Setting(5 * MS, tick_ns, WHEEL), Setting(TIMEOUT_NS, tick_ns, WHEEL)]
    found = {name: totals[1] for name, _, totals in replay_prefixes(waits, operations["keys"], settings)}
    assert {name: (each.completed, each.expired, each.pending) for name, each in found.items()} == {
        name: recorded(pa.Table.from_pylist(rows, operations.schema)) for name, rows in of_prefixes.items()
    }
    assert {each.guessed for each in found.values()} <= {0}
    for name, rows in of_prefixes.items():
        alone = replay(pa.Table.from_pylist(rows, operations.schema), signals, settings[1:])
        assert alone == [found[name]]


@given(STEPS, st.sampled_from([1 * MS, 10 * MS]))
def test_a_late_timer_changes_only_ends_decided_by_lateness(steps, tick_ns):
    operations, signals = record(steps, tick_ns, late=True)
    (totals,) = replay(operations, signals, [Setting(TIMEOUT_NS, tick_ns, WHEEL)])
    completed, expired, pending = recorded(operations)
    assert totals.expired == expired + totals.decided_by_lateness
    assert totals.pending == pending
    assert totals.completed <= completed


@given(STEPS, st.sampled_from([5 * MS, 40 * MS, 1000 * MS]), st.sampled_from([1 * MS, 10 * MS]))
def test_another_timeout_ends_as_the_purgatory_would(steps, timeout_ns, tick_ns):
    # Only signals and time: a completion or cancellation by hand says nothing about another timeout.
    plain = [step for step in steps if step[0] in {"submit", "signal", "move"}]
    operations, signals = record(plain, 1 * MS)
    (totals,) = replay(operations, signals, [Setting(timeout_ns, tick_ns, WHEEL)])
    again, _ = record(plain, tick_ns, timeout_ns)
    assert (totals.completed, totals.expired, totals.pending) == recorded(again)


@pytest.mark.parametrize(
    ("outcome", "end_ms", "counts"),
    [
        pytest.param("expired", 25, (1, 0, 0), id="expired, and a longer timeout lets the signal win"),
        pytest.param(None, None, (1, 0, 0), id="pending, although the signal was enough"),
        pytest.param("completed", 10, (1, 0, 0), id="completed before the signal"),
        pytest.param("cancelled", 20, (0, 0, 0), id="cancelled before the signal, which stands"),
        pytest.param("cancelled", 40, (1, 0, 0), id="cancelled after the signal"),
    ],
)
def test_a_signal_after_30_ms_with_a_timeout_of_50(outcome, end_ms, counts):
    recording = Recording()
    recording.signals = [{"seq": 3, "mono_ns": 30 * MS, "key": "a", "n": 1}]
    recording.last_ns = 100 * MS
    end_ns = None if end_ms is None else end_ms * MS
    row = {"submit_seq": 1, "submit_ns": 0, "keys": ["a"], "needed": 1, "timeout_ns": TIMEOUT_NS}
    recording.operations = {1: row | {"outcome": outcome, "end_ns": end_ns}}
    settings = [Setting(50 * MS, MS, WHEEL), Setting(TIMEOUT_NS, MS, WHEEL)]
    totals, own = replay(*recording.tables(), settings)
    assert (totals.completed, totals.expired, totals.pending) == counts
    # Of what expired nothing is known after 25 ms.
    assert (totals.guessed, own.guessed) == (outcome == "expired", 0)


@pytest.mark.parametrize(
    ("first_ms", "due_ms", "tried_ms", "expires_ms"),
    [
        pytest.param(25, 90, 60, 90, id="a longer timeout: the moved deadline stands"),
        pytest.param(25, 90, 10, 10, id="a shorter one: it was over before it was moved"),
        pytest.param(25, None, 60, None, id="moved to no deadline"),
        pytest.param(None, 90, 10, 90, id="first without one, then with one"),
    ],
)
def test_a_deadline_that_was_moved_at_20_ms(first_ms, due_ms, tried_ms, expires_ms):
    recording = Recording()
    recording.last_ns = 100 * MS
    first_ns, due_ns = (None if each is None else each * MS for each in (first_ms, due_ms))
    ended = {"outcome": None, "end_ns": None} if due_ns is None else {"outcome": "expired", "end_ns": due_ns}
    row = {"submit_seq": 1, "submit_ns": 0, "keys": ["a"], "needed": 1, "timeout_ns": first_ns}
    recording.operations = {1: row | ended | {"rescheduled_ns": 20 * MS, "deadline_ns": due_ns}}
    (totals,) = replay(*recording.tables(), [Setting(tried_ms * MS, MS, WHEEL)])
    held_ms = 100 if expires_ms is None else expires_ms
    assert (totals.expired, totals.pending_ns) == (expires_ms is not None, held_ms * MS)
    # Its own deadline is known, so nothing is guessed; put again when it is moved, in a wheel of few buckets.
    assert (totals.guessed, totals.lateness_ns) == (0, 0)


def test_signals_say_nothing_of_a_condition_that_is_no_sum():
    recording = Recording()
    recording.signals = [{"seq": 2, "mono_ns": 10 * MS, "key": "a", "n": NO_SUM}]
    recording.last_ns = 100 * MS
    row = {"submit_seq": 1, "submit_ns": 0, "keys": ["a"], "needed": NO_SUM, "timeout_ns": TIMEOUT_NS}
    recording.operations = {1: row | {"outcome": "completed", "end_ns": 20 * MS}}
    short, long = replay(*recording.tables(), [Setting(15 * MS, MS, WHEEL), Setting(50 * MS, MS, WHEEL)])
    assert (short.completed, short.expired, long.completed) == (0, 1, 1)


def test_an_unsummed_condition_takes_no_signal_and_no_place():
    recording = Recording()
    recording.signals = [
        {"seq": 4 + place, "mono_ns": (10 + place) * MS, "key": key, "n": 1}
        for place, key in enumerate("abc")
    ]
    recording.last_ns = 100 * MS
    row = {"timeout_ns": TIMEOUT_NS, "outcome": None, "end_ns": None}
    recording.operations = {
        seq: row | {"submit_seq": seq, "submit_ns": seq * MS, "keys": [key], "needed": needed}
        for seq, key, needed in ((1, "a", NO_SUM), (2, "c", 1), (3, "b", NO_SUM))
    }
    (totals,) = replay(*recording.tables(), [Setting(50 * MS, MS, WHEEL)])
    assert (totals.completed, totals.expired) == (1, 2)
    assert totals.pending_ns == (50 + 10 + 50) * MS

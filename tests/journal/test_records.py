"""Each event becomes one record, with exact fields, in the order in which things happened."""

import asyncio
import enum
from types import SimpleNamespace

import pytest

from purgatory_async import DelayedOperation
from purgatory_async.journal import _encoder
from purgatory_async.journal.schema import NO_SUM, Outcome, Reschedule, Signal, Stats, Submit
from purgatory_async.timing import TimingWheel
from tests.journal.journaled import JournaledPurgatory, everything, missing

MS = 1_000_000
WALL = 1_790_000_000_000_000_000
START = 1000.000_4  # 400 us into a tick


@pytest.fixture
def journaled(tmp_path, monkeypatch):
    monkeypatch.setattr(_encoder, "time", SimpleNamespace(time_ns=lambda: WALL))
    with JournaledPurgatory(tmp_path, start=START, node="n1", queue=TimingWheel(20)) as journaled:
        yield journaled


def common(journaled, seq, mono_ns):
    return {
        "schema_version": 1,
        "run_id": journaled.journal.run_id,
        "node": "n1",
        "seq": seq,
        "wall_ns": WALL + mono_ns - 400_000,  # the journal was opened 400 us into its first tick
        "mono_ns": mono_ns,
    }


def test_a_completed_operation_writes_submit_outcome_and_signal(journaled):
    journaled.watch("a", "b", "a", timeout=0.2)
    journaled.clock.advance(0.01)
    journaled.signal("b")
    ended = {"op_id": "1", "keys": ["a", "b"], "outcome": "completed", "latency_ns": 10 * MS}
    assert journaled.close() == [
        Submit(
            **common(journaled, 1, 400_000), op_id="1", keys=["a", "b"], needed=NO_SUM, timeout_ns=200 * MS
        ),
        Outcome(**common(journaled, 2, 400_000 + 10 * MS), **ended, lateness_ns=None, checks=1, inserts=1),
        Signal(**common(journaled, 3, 400_000 + 10 * MS), key="b", n=1),
    ]


def test_lateness_is_measured_from_the_unrounded_deadline(journaled):
    journaled.watch("a", timeout=0.05)
    journaled.clock.advance(1)
    outcome = journaled.close()[-1]
    # 50.4 ms after the tick of the start: it fires with the tick at 51 ms.
    assert (outcome.mono_ns, outcome.latency_ns, outcome.lateness_ns) == (51 * MS, 50_600_000, 600_000)
    assert (outcome.outcome, outcome.inserts) == ("expired", 2)


@pytest.mark.parametrize("tick", [0.001, 0.0004, 1, 0.007])
@pytest.mark.parametrize("start", [0.0, 1e-9, 1000.0004, 12.345678901])
def test_expirations_fall_on_multiples_of_the_tick(tmp_path, tick, start):
    journaled = JournaledPurgatory(tmp_path, start=start, tick=tick)
    for timeout in (1e-9, 0.0003, 0.01, 0.5, 3.3):
        journaled.watch("a", timeout=timeout)
        journaled.clock.advance(0.000_37)
    journaled.clock.advance(100)
    expired = [record for record in journaled.close() if isinstance(record, Outcome)]
    assert {record.mono_ns % round(tick * 1e9) for record in expired} == {0}
    assert len(expired) == 5


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (lambda journaled, operation: operation.force_complete(), "completed"),
        (lambda journaled, operation: operation.cancel(), "cancelled"),
        (lambda journaled, operation: operation.fail(ValueError("no")), "failed"),
        (lambda journaled, operation: journaled.purgatory.close(), "closed"),
        (lambda journaled, operation: journaled.timer.close(), "closed"),
    ],
    ids=["completed", "cancelled", "failed", "closed", "timer-closed"],
)
def test_every_end_has_its_word(journaled, end, word):
    operation = journaled.watch("a", timeout=1)
    end(journaled, operation)
    assert [record.outcome for record in journaled.close() if isinstance(record, Outcome)] == [word]


def test_a_moved_deadline_is_a_record_and_lateness_is_after_it(journaled):
    operation = journaled.watch("a", timeout=0.05)
    journaled.clock.advance(0.01)
    operation.reschedule(0.1)
    journaled.clock.advance(1)
    submit, moved, outcome = journaled.close()
    assert submit.timeout_ns == 50 * MS
    at_ns = 400_000 + 10 * MS
    version = {"schema_version": 2}
    assert moved == Reschedule(**common(journaled, 2, at_ns) | version, op_id="1", timeout_ns=100 * MS)
    # The new deadline is 110.4 ms after the tick of the start; the tick at 111 ms is the first not before it.
    assert (outcome.mono_ns, outcome.lateness_ns, outcome.inserts) == (111 * MS, 600_000, None)
    assert (submit.schema_version, outcome.schema_version) == (1, 1)


@pytest.mark.parametrize(("never", "soon"), [(None, 0), (float("inf"), -3)])
def test_a_deadline_is_moved_to_never_and_to_now(journaled, never, soon):
    operation = journaled.watch("a", timeout=0.05)
    journaled.purgatory.reschedule(operation, never)
    journaled.clock.advance(10)
    journaled.purgatory.reschedule(operation, soon)
    journaled.clock.advance(0)
    _, first, second, outcome = journaled.close()
    assert (first.timeout_ns, second.timeout_ns, outcome.outcome) == (None, 0, "expired")
    assert outcome.lateness_ns == outcome.mono_ns - second.mono_ns


def test_what_is_not_rescheduled_leaves_no_record(journaled):
    operation = journaled.watch("a")
    operation.cancel()
    assert not journaled.purgatory.reschedule(operation, 1)
    assert [type(record) for record in journaled.close()] == [Submit, Outcome]


class AtOnce(DelayedOperation[None]):
    def try_complete(self):
        return self.force_complete()


@pytest.mark.parametrize("timeout", [None, 0, 30.0])
def test_completed_in_its_first_check_it_has_no_inserts(journaled, timeout):
    # Its deadline was never computed: reading it would lose the record.
    journaled.purgatory.try_complete_else_watch(AtOnce(timeout), ["a"])
    submit, outcome = journaled.close()
    assert (submit.op_id, outcome.op_id, outcome.outcome, outcome.inserts) == ("1", "1", "completed", 0)
    assert journaled.journal.dropped == 0


@pytest.mark.parametrize(
    ("timeout", "timeout_ns", "inserts"),
    [(None, None, []), (float("inf"), None, []), (-1, 0, [0]), (0, 0, [0]), (0.25, 250 * MS, [2])],
)
def test_a_timeout_is_in_nanoseconds_and_none_is_for_ever(journaled, timeout, timeout_ns, inserts):
    journaled.watch("a", timeout=timeout)
    journaled.clock.advance(10)
    submit, *ends = journaled.close()
    assert submit.timeout_ns == timeout_ns
    assert [end.inserts for end in ends] == inserts


def test_a_signal_without_waiters_is_recorded(journaled):
    journaled.signal("nobody")
    assert [(record.key, record.n) for record in journaled.close()] == [("nobody", 1)]


def test_checks_count_every_time_that_the_condition_was_asked(journaled):
    operation = journaled.watch("a")
    for _ in range(3):
        journaled.purgatory.check_and_complete("a")
    operation.force_complete()
    outcome = journaled.close()[-1]
    assert outcome.checks == 4


class Counting(DelayedOperation[None]):
    def __init__(self, needed):
        super().__init__()
        self.needed = needed


@pytest.mark.parametrize(
    ("needed", "written"),
    [
        (3, 3),
        (0, 0),
        (NO_SUM - 1, NO_SUM - 1),
        (2**40, NO_SUM),
        (-(2**40), NO_SUM),
        (True, NO_SUM),
        ("3", NO_SUM),
    ],
)
def test_what_is_needed_is_the_operations_own_word_or_no_sum(journaled, needed, written):
    # A number that does not fit the column would make an unreadable line.
    journaled.purgatory.try_complete_else_watch(Counting(needed), ["a"])
    (submit,) = journaled.close()
    assert submit.needed == written


@pytest.mark.parametrize(
    ("weight", "written"), [(0, 0), (1, 1), (7, 7), (2**31, 2**31 - 1), (2**70, 2**31 - 1)]
)
def test_a_signal_weighs_what_it_is_said_to(tmp_path, weight, written):
    journaled = JournaledPurgatory(tmp_path, weigh=lambda event: weight)
    journaled.signal("a")
    assert [record.n for record in journaled.close()] == [written]


@pytest.mark.parametrize("weight", [-1, 1.5, "2", None, True])
def test_an_invalid_weight_drops_its_record_with_a_report(tmp_path, weight):
    journaled = JournaledPurgatory(tmp_path, weigh=lambda event: weight if event.key == "bad" else 1)
    journaled.signal("bad", "good")
    assert [(record.seq, record.key) for record in journaled.close()] == [(2, "good")]
    assert journaled.journal.dropped == 1
    assert (
        [sentence for sentence in journaled.messages if "weigh must return an integer" in sentence]
        == journaled.messages
        != []
    )


def test_a_weigher_that_raises_costs_its_record_and_nothing_else(tmp_path):
    def weigh(event):
        return 1 // (event.key != "bad")

    journaled = JournaledPurgatory(tmp_path, weigh=weigh)
    journaled.signal("bad", "good")
    assert [(record.seq, record.key) for record in journaled.close()] == [(2, "good")]
    assert journaled.journal.dropped == 1
    assert ["ZeroDivisionError" in sentence for sentence in journaled.messages] == [True]


class Colour(enum.StrEnum):
    RED = "red"


class Named(str):
    __slots__ = ()

    def __str__(self):
        return "something else"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("door", "door"),
        ("", ""),
        ('"quoted"\n\\', '"quoted"\n\\'),
        ("Tür 🚪", "Tür 🚪"),
        ("half \ud83d", "half \\ud83d"),
        ("nul \x00 \x7f \x85 \u2028", "nul \x00 \x7f \x85 \u2028"),
        (Colour.RED, "red"),
        (Named("named"), "named"),
        (42, "42"),
        (("order", 42), "('order', 42)"),
        (b"bytes", "b'bytes'"),
        (None, "None"),
        (frozenset(), "frozenset()"),
        ("k" * 1_000_000, "k" * 1_000_000),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_key_is_its_text_and_what_is_no_text_is_its_repr(journaled, key, text):
    journaled.watch(key)
    journaled.signal(key)
    submit, outcome, signal = journaled.close()
    assert submit.keys == outcome.keys == [text]
    assert signal.key == text


# Not every exception is an Exception; any that came through would end the thread.
@pytest.mark.parametrize("error", [RuntimeError, SystemExit, asyncio.CancelledError])
def test_a_key_whose_repr_raises_loses_its_records_counted(journaled, error):
    class Mute:
        def __repr__(self):
            raise error("mute")

    journaled.watch("before")
    operation = journaled.watch(Mute())
    operation.cancel()
    journaled.signal("before")
    records = journaled.close()
    assert missing(records) == [2, 3]
    assert journaled.journal.dropped == 2
    assert len(records) == 3
    assert ["mute" in sentence for sentence in journaled.messages] == [True, True]


def test_numbers_have_no_gap_and_stats_have_wheels_and_ticks(journaled):
    journaled.journal.gauge(journaled.purgatory)
    for number in range(200):
        journaled.watch(number, timeout=5)
        journaled.clock.advance(0.013)
        if number % 3 == 0:
            journaled.signal(number)
    journaled.purgatory.close()
    records = journaled.close()
    assert [record.seq for record in records] == [*range(1, len(records) + 1)]
    stats = [record for record in records if isinstance(record, Stats)]
    assert {(record.tick_ns, record.wheel_size, record.purged) for record in stats} == {(MS, 20, 0)}
    # Once a second while something happens, and at the end.
    assert [record.mono_ns // 1_000_000_000 for record in stats[:-1]] == [0, 1, 2]
    assert (stats[-1].pending, stats[-1].watched) == (0, 0)
    assert stats[1].pending == stats[1].watched > 0
    assert stats[1].timer_buckets > 0


def test_records_follow_a_clock_change_and_a_new_segment(tmp_path, monkeypatch):
    wall = SimpleNamespace(time_ns=lambda: WALL)
    monkeypatch.setattr(_encoder, "time", wall)
    with JournaledPurgatory(tmp_path, segment_bytes=4096) as journaled:
        journaled.signal("before")
        wall.time_ns = lambda: WALL + 3600 * 1000 * MS
        for _ in range(60):
            journaled.signal("x" * 200)
        journaled.journal._writer_thread.hurry()
        while len(list(tmp_path.glob("*.000002.*"))) == 0:
            pass
        journaled.signal("after")
    records = [record for record in everything(tmp_path) if isinstance(record, Signal)]
    assert [record.wall_ns - WALL for record in records if record.key == "before"] == [0]
    assert [record.wall_ns - WALL for record in records if record.key == "after"] == [3600 * 1000 * MS]

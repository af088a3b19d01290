"""Chaos is judged: what was answered and is not in the log, or is there twice or too early, is counted."""

from contextlib import closing

import pytest
from msgspec import Raw

from purgatory_async.cluster import Entry
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import (
    Alive,
    EndLease,
    EndOperation,
    PutItem,
    SignalKey,
    SubmitOperation,
    Tick,
    WantItem,
)
from purgatory_async.durable.fold.fold import Fold
from tests.soak.chaos.answers import Answers, Item, Lease, Operation, Signal
from tests.soak.chaos.judge import judge
from tests.soak.chaos.witness import History, history_of

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US


def history(*entries):
    """A history of entries a second apart."""
    return history_of(
        [
            Entry(position, START_US + position * SECOND_US, encode(entry))
            for position, entry in enumerate(entries, 1)
        ]
    )


def faults(answers, found):
    judge(answers, found)
    return {name: count for name, count in answers.counts.items() if count}


def a_sound_run():
    """A log of every kind of entry, and answers that follow from it."""
    found = history(
        SubmitOperation(id="a", keys=("k",), timeout_us=3 * SECOND_US),
        SubmitOperation(id="b", keys=("k2",), timeout_us=3 * SECOND_US),
        SignalKey(key="k", value=Raw(b"1")),
        PutItem(queue="q", item=Raw(b"2"), delay_us=0),
        WantItem(queue="q", lease_id="x", lease_us=SECOND_US, wait_us=0, max=1),
        Tick(),
        WantItem(queue="q", lease_id="y", lease_us=9 * SECOND_US, wait_us=0, max=1),
        EndLease(lease_id="y"),
    )
    answers = Answers(
        operations={
            "a": Operation(3.0, 0.0, known=True, state="completed"),
            "b": Operation(3.0, 0.0, known=True, state="expired"),
        },
        signals={1: Signal("k", 3, 1)},
        items={2: Item(delivered=False)},
        leases={"x": Lease(2, 0.0, 0.0), "y": Lease(2, 0.0, 0.0, "ack")},
    )
    return answers, found


def test_nothing_is_wrong_with_a_sound_run():
    assert faults(*a_sound_run()) == {}


@pytest.mark.parametrize(
    ("fault", "spoil"),
    [
        ("lost", lambda told: told.operations.update(c=Operation(None, 0.0, known=True))),
        ("lost", lambda told: told.signals.update({9: Signal("k", 9, 0)})),
        ("lost", lambda told: told.items.update({9: Item(delivered=True)})),
        ("lost", lambda told: told.leases.update(x=Lease(2, 0.0, 0.0, "ack"))),
        (
            "different",
            lambda told: told.operations.update(a=Operation(3.0, 0.0, known=True, state="expired")),
        ),
        ("different", lambda told: told.signals.update({1: Signal("k", 3, 2)})),
        ("different", lambda told: told.items.update({2: Item(delivered=True)})),
        ("different", lambda told: told.leases.update(z=Lease(2, 0.0, 0.0))),
    ],
)
def test_an_answer_that_the_log_does_not_have_is_counted(fault, spoil):
    answers, found = a_sound_run()
    spoil(answers)
    assert faults(answers, found) == {fault: 1}


def test_an_item_that_nobody_acknowledged_is_lost():
    answers = Answers(items={1: Item(delivered=False)})
    assert faults(answers, history(PutItem(queue="q", item=Raw(b"1"), delay_us=0))) == {"lost": 1}


def test_a_timeout_that_never_came_is_lost():
    answers = Answers(operations={"a": Operation(1.0, 0.0, known=True)})
    assert faults(answers, history(SubmitOperation(id="a", keys=("k",), timeout_us=SECOND_US))) == {"lost": 1}


def test_a_signal_and_an_item_with_two_positions_are_doubled():
    signal, item = SignalKey(key="k", value=Raw(b"1")), PutItem(queue="q", item=Raw(b"2"), delay_us=0)
    found = history(
        *(signal, signal, item, item),
        *(WantItem(queue="q", lease_id=name, lease_us=SECOND_US * 9, wait_us=0, max=1) for name in "xy"),
        *(EndLease(lease_id=name) for name in "xy"),
    )
    answers = Answers(signals={1: Signal("k")}, items={2: Item()})
    # The signal, the item, its two acknowledgements, and its second lease after none of them.
    assert faults(answers, found)["doubled"] >= 3


@pytest.mark.parametrize(("timeout", "early", "late_ms"), [(2, 0, 0), (3, 1, -1000)])
def test_an_end_before_its_time_in_the_log_is_early(timeout, early, late_ms):
    found = History()
    with closing(Fold()) as fold:
        for position, entry in enumerate(
            [SubmitOperation(id="a", keys=("k",), timeout_us=2 * SECOND_US), Tick(), Tick()], 1
        ):
            raw = Entry(position, START_US + position * SECOND_US, b"")
            result, effects = fold.apply(raw.position, raw.at_us, entry)
            if isinstance(entry, SubmitOperation):
                entry.timeout_us = timeout * SECOND_US
            found.note(raw, entry, result, effects)
    assert (len(found.early), found.lateness_ms()) == (early, [late_ms])


def test_an_item_leased_again_before_its_lease_ends_is_early():
    found = history(
        PutItem(queue="q", item=Raw(b"1"), delay_us=0),
        WantItem(queue="q", lease_id="x", lease_us=SECOND_US, wait_us=0, max=1),
        Tick(),
    )
    assert found.early == []
    found.leases["x"].until_us += 9 * SECOND_US
    with closing(Fold()) as fold:
        fold.apply(1, START_US, PutItem(queue="q", item=Raw(b"1"), delay_us=0))
        want = WantItem(queue="q", lease_id="y", lease_us=SECOND_US, wait_us=0, max=1)
        result, effects = fold.apply(2, START_US + SECOND_US, want)
    found.note(Entry(4, START_US + 4 * SECOND_US, b""), want, result, effects)
    assert len(found.early) == 1


def test_a_digest_that_is_not_the_logs_is_counted():
    found = history(Tick(), Alive(writer="w", number=1, position=1, digest="00" * 12))
    assert (found.compared, found.differing) == (1, [1])
    assert faults(Answers(), found) == {"different": 1}


class TestShown:
    def test_a_stale_answer_is_different(self):
        answers = Answers(operations={"a": Operation(None, 0.0)})
        answers.show("a", "completed", 1.0, 2.0)
        answers.show("a", "pending", 1.5, 2.5)  # asked before the end was known
        assert not answers.counts
        answers.show("a", "pending", 2.1, 2.5)
        assert answers.counts == {"different": 1}

    def test_two_ends_are_different(self):
        answers = Answers(operations={"a": Operation(None, 0.0)})
        answers.show("a", "completed", 1.0, 2.0)
        answers.show("a", "cancelled", 1.0, 2.0)
        assert answers.counts == {"different": 1}

    @pytest.mark.parametrize(("answered", "early"), [(1.5, 0), (1.49, 1)])
    def test_an_expiry_before_its_timeout_is_early(self, answered, early):
        answers = Answers(operations={"a": Operation(0.5, 1.0)})
        answers.show("a", "expired", 1.0, answered)
        assert answers.counts["early"] == early


def test_an_end_by_an_entry_is_no_expiry():
    found = history(SubmitOperation(id="a", keys=("k",)), EndOperation(id="a", how="cancelled"))
    assert (found.operations["a"].state, found.early) == ("cancelled", [])

"""When a need holds, and what it says it waits for before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from purgatory_async.durable.documents import CountNeed, SignalView, WaitingFor
from purgatory_async.durable.fold.needs import need_for
from purgatory_async.durable.fold.signals import Ledger, Signal

KEYS = ("a", "b", "c")


def signal(key="a", index=1, *, amount=1, voter=UNSET):
    return Signal(SignalView(key, index, voter=voter), amount)


def test_any_holds_with_the_first_signal():
    need = need_for("any", KEYS)
    assert need.waiting_for() == WaitingFor(any=KEYS)
    assert need.note(signal("b"))


def test_all_holds_once_every_key_was_signalled():
    need = need_for("all", KEYS)
    assert [need.note(signal(key)) for key in ("b", "b", "a")] == [False, False, False]
    assert need.waiting_for() == WaitingFor(all=("c",))
    assert need.note(signal("c"))


def test_an_amount_is_summed_over_the_keys():
    need = need_for(CountNeed(amount=10), KEYS)
    assert [need.note(signal("a", amount=4)), need.note(signal("b", amount=5))] == [False, False]
    assert need.waiting_for() == WaitingFor(amount=1)
    assert need.note(signal("a", amount=1))


def test_each_voter_counts_once_and_a_signal_without_one_never():
    need = need_for(CountNeed(voters=2), KEYS)
    assert [need.note(signal(voter=voter)) for voter in ("x", "x", UNSET)] == [False, False, False]
    assert need.waiting_for() == WaitingFor(voters=1)
    assert need.note(signal(voter="y"))


@pytest.mark.parametrize(
    "wire", ["any", "all", CountNeed(amount=3), CountNeed(voters=3)], ids=["any", "all", "amount", "voters"]
)
def test_a_need_is_shown_as_it_was_written(wire):
    assert need_for(wire, KEYS).wire == wire


@given(
    st.sampled_from(["any", "all", CountNeed(amount=7), CountNeed(voters=3)]),
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 4), st.sampled_from(["x", "y", "z", UNSET]))),
)
def test_a_need_agrees_with_counting_the_whole_history_again(wire, history):
    need = need_for(wire, KEYS)
    for number, (key, amount, voter) in enumerate(history, 1):
        seen = history[:number]
        expected = {
            "any": True,
            "all": {key for key, _, _ in seen} == set(KEYS),
            CountNeed(amount=7): sum(amount for _, amount, _ in seen) >= 7,
            CountNeed(voters=3): len({voter for _, _, voter in seen} - {UNSET}) >= 3,
        }[wire]
        assert need.note(signal(key, number, amount=amount, voter=voter)) == expected
        if expected:
            return


def test_the_ledger_keeps_the_latest_signal_per_key_and_voter():
    ledger = Ledger()
    for index, (key, voter) in enumerate([("a", UNSET), ("b", "x"), ("a", "x"), ("a", UNSET)], 1):
        ledger.note(signal(key, index, voter=voter))
    assert [(view.key, view.index) for view in ledger.views()] == [("b", 2), ("a", 3), ("a", 4)]


def test_the_ledger_keeps_64_signals_at_most():
    ledger = Ledger()
    for index in range(1, 101):
        ledger.note(signal("a", index, voter=f"v{index}"))
    assert [view.index for view in ledger.views()] == list(range(37, 101))

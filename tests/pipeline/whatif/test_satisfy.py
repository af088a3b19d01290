"""The first signal that brings an operation what it needs, against adding up one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.pipeline.whatif.satisfy import AT_ONCE, Signals, Waits, satisfied

KEYS = 4


@st.composite
def journals(draw, least=0):
    """Signals and operations with sequence numbers of their own, in any order."""
    signals = draw(st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(least, 4)), max_size=30))
    watched = st.lists(st.integers(0, KEYS), min_size=1, max_size=KEYS, unique=True)  # one is never signalled
    waits = draw(st.lists(st.tuples(st.integers(-1, 9), watched), max_size=12))
    order = draw(st.permutations(range(1, len(signals) + len(waits) + 1)))
    return sorted(order[: len(signals)]), signals, order[len(signals) :], waits


def one_by_one(seqs, signals, submits, waits):
    def answer(submit, needed, keys):
        if needed <= 0:
            return AT_ONCE
        came = 0
        for place, (seq, (key, n)) in enumerate(zip(seqs, signals, strict=True)):
            came += n if seq > submit and key in keys else 0
            if seq > submit and key in keys and came >= needed:
                return place
        return len(signals)

    return [answer(submit, *wait) for submit, wait in zip(submits, waits, strict=True)]


def searched(seqs, signals, submits, waits):
    columns = Signals.of(seqs, [key for key, _ in signals], [n for _, n in signals])
    return satisfied(Waits.of(submits, [needed for needed, _ in waits], [keys for _, keys in waits]), columns)


@given(journals())
def test_satisfaction_is_by_the_signal_that_reaches_the_sum(journal):
    assert searched(*journal).tolist() == one_by_one(*journal)


@given(journals(least=-3))
def test_a_sum_that_falls_again_has_been_reached_all_the_same(journal):
    assert searched(*journal).tolist() == one_by_one(*journal)


@pytest.mark.parametrize(
    ("submit", "needed", "keys", "place"),
    [
        pytest.param(3, 1, [0], 2, id="a signal before the submission does not count"),
        pytest.param(0, 2, [0], 2, id="nor do signals on other keys"),
        pytest.param(0, 3, [0, 1], 2, id="keys add up"),
        pytest.param(0, 9, [0, 1], 4, id="there is not enough"),
        pytest.param(0, 1, [7], 4, id="a key without a signal"),
        pytest.param(0, 0, [7], AT_ONCE, id="nothing is needed"),
        pytest.param(9, 1, [0], 4, id="submitted after everything"),
    ],
)
def test_cases_that_one_can_read(submit, needed, keys, place):
    seqs, signals = [1, 2, 5, 6], [(0, 1), (1, 1), (0, 2), (1, 1)]
    assert searched(seqs, signals, [submit], [(needed, keys)]).tolist() == [place]


def test_without_signals_or_keys_nothing_is_satisfied():
    none = Signals.of([], [], [])
    assert satisfied(Waits.of([1], [1], [[0]]), none).tolist() == [0]
    assert satisfied(Waits.of([1, 1], [1, 1], [[], [0]]), Signals.of([2], [0], [1])).tolist() == [1, 0]


def test_sums_beyond_32_bits_are_sums():
    many = 5
    signals = Signals.of(np.arange(1, many + 1), np.zeros(many), np.full(many, 2**31 - 1))
    assert satisfied(Waits.of([0, 3], [2**31 - 1, 2**31 - 1], [[0], [0]]), signals).tolist() == [0, 3]

"""Random numbers of our own against the standard library's: their values, their ends, their shares."""

from itertools import combinations
from math import comb
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.pipeline import variates

ENDS = np.array([2.0**-53, 1 - 2.0**-53])
SHARES = np.sort(np.concatenate([ENDS, np.linspace(1e-9, 1 - 1e-9, 10_001)]))


def test_uniforms_are_philox_bits_inside_the_open_interval():
    # The fault: 53 bits and a half round to 1 at the end, whose quantile is infinite.
    bits = np.random.Philox(counter=7 << 192, key=(5 << 64) + 2**64 - 3).random_raw(100)
    found = variates.uniforms(2**64 - 3, 5, 7, 100)
    assert found.tolist() == [((int(bit) >> 12) + 0.5) / 2**52 for bit in bits]
    assert ((2**52 - 1) + 0.5) / 2**52 == ENDS[1] < 1


def test_a_shorter_stream_is_the_beginning_of_a_longer_one():
    long = variates.uniforms(1, 2, 3, 1000)
    assert variates.uniforms(1, 2, 3, 10).tolist() == long[:10].tolist()


@pytest.mark.parametrize("place", range(3), ids=["seed", "block", "stream"])
def test_another_seed_block_or_stream_has_other_numbers(place):
    chosen = [1, 1, 1]
    chosen[place] = 2
    assert not np.isin(variates.uniforms(*chosen, 1000), variates.uniforms(1, 1, 1, 1000)).any()


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_logarithms_are_the_machine_s_but_for_the_last_places(number):
    assert variates.log(np.array([number]))[0] == pytest.approx(np.log(number), rel=1e-15, abs=1e-300)


def test_normal_quantiles_equal_those_of_the_standard_library():
    expected = [NormalDist().inv_cdf(share) for share in SHARES.tolist()]
    assert variates.normal_quantile(SHARES) == pytest.approx(expected, rel=2e-15, abs=1e-15)


def test_a_log_normal_number_is_the_exponential_of_a_normal_one():
    normal = variates.normal_quantile(SHARES)
    assert variates.lognormal(SHARES, 16.8, 1.6) == pytest.approx(np.exp(16.8 + 1.6 * normal), rel=1e-13)


def test_numpy_does_only_exactly_rounded_arithmetic(monkeypatch):
    # The fault: np.log and its like differ in the last bit between processors, and a rounded nanosecond with them.
    def refuse(*_, **__):
        raise AssertionError("the result depends on the processor")

    for name in ("log", "log1p", "exp", "expm1", "power", "sin", "cos", "tanh"):
        monkeypatch.setattr(np, name, refuse)
    shares = variates.uniforms(1, 2, 3, 1000)
    variates.exponential(shares)
    variates.lognormal(shares, 16.8, 1.6)


@given(st.data())
def test_a_set_has_its_size_in_distinct_numbers_of_the_space(data):
    space = data.draw(st.integers(1, 2**31) | st.integers(1, 8))
    most = data.draw(st.integers(1, min(space, 8)))
    counts = np.array(data.draw(st.lists(st.integers(1, most), min_size=1, max_size=20)))
    inside = st.floats(ENDS[0], ENDS[1])
    places = [
        np.array(data.draw(st.lists(inside, min_size=len(counts), max_size=len(counts)))) for _ in range(most)
    ]
    numbers, counted = variates.distinct_numbers(counts, places, space)
    for row, counts_in, size in zip(numbers, counted, counts, strict=True):
        chosen = row[counts_in].tolist()
        assert len(chosen) == len(set(chosen)) == size
        assert all(0 <= number < space for number in chosen)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_set_of_a_size_is_as_likely_as_any_other(size):
    # The fault: sets that are smaller than the largest never have the last numbers.
    rows, space = 60_000, 6
    places = [variates.uniforms(1, 0, place, rows) for place in range(3)]
    numbers, counted = variates.distinct_numbers(np.full(rows, size), places, space)
    chosen = numbers[counted].reshape(rows, size)
    sets, seen = np.unique(np.sort(chosen, axis=1), axis=0, return_counts=True)
    assert sets.tolist() == [list(numbers) for numbers in combinations(range(space), size)]
    expected = rows / comb(space, size)
    # Chi-squared with up to 19 degrees of freedom; 60 has a chance of 4 in a million, and the seed is fixed.
    assert sum((seen - expected) ** 2 / expected) < 60

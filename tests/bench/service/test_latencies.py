"""A percentile is one of the values, and at least its share of them is not above it."""

import pytest

from bench.service.latencies import Latencies, percentile
from bench.service.probe import Waits


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5], 0.5, 5),
        ([3, 1, 2, 4], 0.5, 2),
        (range(1, 101), 0.99, 99),
        (range(1, 102), 0.99, 100),  # 99 of 101 are less than 99 %
        (range(1, 101), 1.0, 100),
        ([2, 1], 0.01, 1),
    ],
)
def test_a_percentile_is_the_smallest_sufficient_value(values, share, expected):
    assert percentile(list(values), share) == expected


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1], 0.0), ([1], 1.01)])
def test_there_is_no_percentile_of_nothing_nor_of_more_than_all(values, share):
    with pytest.raises(ValueError, match=f"{len(values)} values and {share}"):
        percentile(values, share)


# A loop that had no processor did not stall; one that did, did, whatever the machine took besides.
def test_of_a_wait_only_the_time_with_a_processor_is_the_loops():
    waits = Waits.of([(9_000_000, 8_000_000), (5_000_000, 0), (1_000_000, 2_000_000), (1_000_000, 3_000_000)])
    assert (waits.loop, waits.wall) == (Latencies(0.0, 5.0, 5.0), Latencies(1.0, 9.0, 9.0))

"""The rate of a job is taken from the median sample, and is held against its target."""

import pytest

from bench.measure.line import Verdict
from bench.pipeline.rate import Rate, measured


@pytest.mark.parametrize(
    ("target", "verdict"), [(None, Verdict.SHOWN), (500, Verdict.MET), (501, Verdict.MISSED)]
)
def test_a_rate_meets_its_target_from_below(target, verdict):
    rate = Rate(name="rows", rows=1000, seconds=2.0, loop_speed=1e7, target=target)
    assert rate.verdict is verdict
    assert rate.per_loop == pytest.approx(0.005)


def test_a_rate_is_that_of_the_median_sample():
    taken = []
    rate = measured("rows", 100, 3, lambda: taken.append(1), target=1)
    assert len(taken) == 3
    assert rate.per_second > 0
    assert rate.loop_speed > 0
    assert " in 3" in rate.note

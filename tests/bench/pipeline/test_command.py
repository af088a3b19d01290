"""``python -m bench.pipeline`` runs, and prints every section."""

import pytest

from bench.measure.line import Verdict
from bench.pipeline.rate import Rate, measured
from bench.pipeline.sections import SECTIONS
from tests.bench.quick import run_quick


@pytest.mark.slow
@pytest.mark.spark
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    run_quick("bench.pipeline", SECTIONS, tmp_path, patience_s=600)


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []


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

"""``python -m bench.pipeline`` runs, and prints every section."""

import json
import subprocess
import sys

import pytest

from bench.measure.line import Verdict
from tests.source_tree import ROOT

pytest.importorskip("pyspark", reason="the pipeline needs the extra spark")

from bench.pipeline.rate import Rate, measured
from bench.pipeline.sections import SECTIONS


@pytest.mark.slow
@pytest.mark.spark
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    written = tmp_path / "figures.json"
    finished = subprocess.run(
        [sys.executable, "-m", "bench.pipeline", "--quick", "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert [name for name in SECTIONS if f"\n== {name}: " not in finished.stdout] == []
    document = json.loads(written.read_text(encoding="utf-8"))
    assert {line["section"] for line in document["lines"]} == set(SECTIONS)


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

"""A line says whether its figure meets its target."""

import pytest

from bench.measure.line import Line, Verdict
from bench.measure.sampling import Spread


def line(**changes):
    facts = {
        "name": "a / b",
        "loop": "asyncio",
        "collector": "gc on",
        "unit": "ns",
        "ours": 40.0,
        "reference": 100.0,
        "ratio": Spread(0.35, 0.4, 0.45),
    }
    return Line(**{**facts, **changes})


@pytest.mark.parametrize(
    ("target", "verdict"),
    [(0.5, Verdict.MET), (0.4, Verdict.MET), (0.39, Verdict.MISSED), (None, Verdict.SHOWN)],
    ids=["below", "equal", "above", "without-target"],
)
def test_the_median_ratio_is_held_against_the_target(target, verdict):
    assert line(target=target).verdict is verdict


def test_a_line_without_a_ratio_is_judged_by_our_figure():
    assert line(reference=None, ratio=None, target=41).verdict is Verdict.MET


def test_an_absolute_target_is_judged_by_our_figure():
    assert line(target=0.5, absolute=True).verdict is Verdict.MISSED


def test_a_line_prints_figures_ratio_and_verdict():
    printed = str(line(target=0.39, goal=0.2, note="why"))
    assert " ".join(printed.split()) == (
        "a / b asyncio gc on 40 ns 100 ns 0.400 [0.350-0.450] <= 0.39 goal 0.2 MISSED (why)"
    )

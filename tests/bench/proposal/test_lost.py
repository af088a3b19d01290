"""A lost point is a sentence: which contestant was better, in what, by how much, and whether the readings overlap."""

import pytest

from bench.proposal.lost import losses
from bench.proposal.point import FLOOD, HARNESS
from tests.bench.proposal.made import point, reading


def sentences(ours, theirs, *, name="call_later", **changes):
    """The sentences of one point, where each side has those readings."""
    mine = point(**changes)
    readings = {
        mine: [reading(**each) for each in ours],
        point(name, **changes): [reading(**each) for each in theirs],
    }
    return [str(loss) for loss in losses(readings)]


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"rate_reached": 8_000.0}, {"rate_reached": 10_000.0}, "took 25 % more requests a second"),
        ({"lateness_ms_p99": 2.0}, {"lateness_ms_p99": 1.1}, "was 0.90 ms less late at the 99th percentile"),
        ({"gc_ms": 900.0}, {"gc_ms": 100.0}, "spent 800 ms less in the collector"),
        ({"held_mib": 30.0}, {"held_mib": 2.0}, "held 28 MiB less when all had ended"),
        ({"entries_left": 2_000}, {"entries_left": 0}, "left 2,000 entries fewer behind"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_figure_that_is_shown_can_be_lost(ours, theirs, words):
    [sentence] = sentences([ours] * 3, [theirs] * 3)
    assert words in sentence


def test_a_peer_less_late_for_being_early_is_marked():
    # The fault: a timer that fires before its time is praised for being on time.
    theirs = {"lateness_ms_p99": 1.0, "early": 20, "timeout_rate": 0.08}
    [sentence] = sentences(
        [{"lateness_ms_p99": 2.0}] * 3, [theirs, {**theirs, "early": 0}, {**theirs, "early": 40}]
    )
    assert (
        "was 1.00 ms less late at the 99th percentile (and too early in 25 % of its expirations) than"
        in sentence
    )
    [sentence] = sentences([{"cpu_s_per_million": 6.0}] * 3, [{"cpu_s_per_million": 3.0, "early": 20}] * 3)
    assert "early" not in sentence


def test_overlapping_readings_are_marked_beside_the_median():
    ours = [{"cpu_s_per_million": each} for each in (4.0, 6.0, 7.0)]
    theirs = [{"cpu_s_per_million": each} for each in (4.5, 5.0, 5.5)]
    [sentence] = sentences(ours, theirs)
    assert sentence.endswith("; their readings overlap")


def test_a_single_reading_each_is_marked_as_maybe_chance():
    # The fault: two single readings never overlap, and count as clear.
    [sentence] = sentences([{"cpu_s_per_million": 5.0}], [{"cpu_s_per_million": 4.0}])
    assert sentence.endswith("; one reading each")


def test_without_the_harness_the_share_is_greater():
    readings = {
        point(): [reading(cpu_s_per_million=5.0)],
        point("call_later"): [reading(cpu_s_per_million=4.0)],
        point(HARNESS): [reading(cpu_s_per_million=1.0)],
    }
    [loss] = losses(readings)
    assert "20 % less processor time (25 % without the harness)" in str(loss)


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param(point(HARNESS), id="the harness"),
        pytest.param(point(wheel_size=20), id="ours with another wheel"),
        pytest.param(point("call_later_future"), id="a task, where ours is a callback"),
        pytest.param(point("call_later", loop="uvloop"), id="another loop"),
        pytest.param(point("call_later", case="high"), id="another case"),
        pytest.param(point("call_later", rate=FLOOD), id="another rate"),
        pytest.param(point("call_later", collector="recipe"), id="another collector"),
    ],
)
def test_only_like_is_compared_with_like(theirs):
    fast = reading(cpu_s_per_million=0.1)
    assert list(losses({point(): [reading()], theirs: [fast]})) == []


@pytest.mark.parametrize(
    ("compiled", "judged"), [(True, "purgatory_async"), (False, "purgatory_async, pure")]
)
def test_pure_python_is_judged_where_nothing_is_compiled(compiled, judged):
    # The faults: every loss is told twice, or an installation without a compiler has none.
    readings = {
        point(pure=True): [reading(cpu_s_per_million=9.0)],
        point("call_later"): [reading(cpu_s_per_million=4.0)],
    }
    if compiled:
        readings[point()] = [reading(cpu_s_per_million=5.0)]
    assert [loss.ours.name for loss in losses(readings)] == [judged]

"""The recommended setting, and what is said for it."""

import pytest

from purgatory_async.pipeline.whatif.page import recommend

LONGER = "Of the operations, 100 still expired, and no longer timeout was tried: try longer ones."


def line(timeout, tick, wheel_size, *, completed, late_ms, inserts):
    return {
        "timeout": timeout,
        "tick": tick,
        "wheel_size": wheel_size,
        "completed": completed,
        "expired": 1000 - completed,
        "timeout_rate": 1 - completed / 1000,
        "pending_mean": 1.0,
        "lateness_mean_ns": late_ms * 1_000_000,
        "inserts_per_operation": inserts,
    }


def test_the_recommended_setting_waits_and_wakes_least():
    lines = [
        line(0.1, 0.001, 256, completed=900, late_ms=0.5, inserts=1.0),  # completes too few
        line(0.2, 0.001, 256, completed=995, late_ms=0.5, inserts=1.0),  # wakes too often
        line(0.2, 0.004, 20, completed=995, late_ms=2, inserts=1.3),  # moves too much
        line(0.2, 0.004, 256, completed=995, late_ms=2, inserts=1.0),
        line(0.2, 0.004, 512, completed=995, late_ms=2, inserts=1.0),  # is larger than it need be
        line(0.2, 0.050, 256, completed=996, late_ms=25, inserts=1.0),  # is too late
        line(9.0, 0.001, 256, completed=1000, late_ms=0.5, inserts=1.0),  # only keeps more waiting
    ]
    found = recommend(lines)
    assert (found["timeout"], found["tick"], found["wheel_size"]) == (0.2, 0.004, 256)
    assert "0.2 s is the shortest timeout" in found["why"]


@pytest.mark.parametrize(
    ("completed", "advised"),
    [((500, 900), True), ((500, 1000), False), ((900, 900), False)],
    ids=["the longest leaves some to expire", "none expired", "a longer one was tried"],
)
def test_a_longer_timeout_is_advised_if_the_longest_expires(completed, advised):
    lines = [
        line(timeout, 0.001, 256, completed=count, late_ms=0.5, inserts=1.0)
        for timeout, count in zip((0.1, 0.2), completed, strict=True)
    ]
    why = recommend(lines)["why"]
    assert (LONGER in why) is advised
    assert ("longer ones" in why) is advised

"""The recommended setting, and what is said for it."""

import pytest

from purgatory_async.pipeline.whatif.page import recommend
from purgatory_async.pipeline.whatif.prefixes import Prefix, recommend_each

LONGER = "Of the operations, 100 still expired, and no longer timeout was tried: try longer ones."


def line(timeout, tick, wheel_size, *, completed, late_ms, inserts, guessed=0):
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
        "guessed": guessed,
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


def of_timeouts(completed, guessed=(0, 0, 0)):
    """Lines of three timeouts, with a wheel that is better for these operations than for all."""
    return [
        line(timeout, 0.001, size, completed=count, late_ms=0.5, inserts=size / 256, guessed=guess)
        for timeout, count, guess in zip((1, 60, 3600), completed, guessed, strict=True)
        for size in (20, 256)
    ]


def test_each_prefix_has_its_own_timeout_on_the_same_timer():
    every = [
        Prefix("human", 1000, 60.0, of_timeouts((10, 400, 900), (0, 0, 600))),
        Prefix(None, 9000, None, of_timeouts((1000, 1000, 1000))),
        Prefix("api", 1000, 1.0, of_timeouts((995, 999, 1000), (0, 5, 5))),
    ]
    plain, api, human = recommend_each(every, {"tick": 0.001, "wheel_size": 256})
    assert [each.name for each in (plain, api, human)] == [None, "api", "human"]
    assert (plain.chosen, api.chosen["timeout"], human.chosen["timeout"]) == (None, 1, 3600)
    assert "guess" not in api.why
    assert "partly a guess: 600 operations expired with a shorter timeout when recorded" in human.why
    marked = [(row["timeout"], row["wheel_size"]) for row in human.rows() if row["recommended"]]
    assert marked == [(3600, 256)]
    shown = ("prefix", "recorded_timeout", "timeout", "completed", "expired", "guessed")
    assert [human.summary()[name] for name in shown] == ["human", 60.0, 3600, 900, 100, 600]
    assert plain.summary()["timeout"] is None

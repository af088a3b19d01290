"""Which points are run: every contestant in each round, in a new order; a saturated one only in the flood."""

from bench.proposal.plan import OWN, Plan
from tests.bench.proposal.made import reading


def plan(**changes):
    known = {
        "contestants": ("harness", "purgatory_async", "call_later", "wait"),
        "loops": ("asyncio",),
        "cases": ("low",),
        "rates": (20_000, 10_000),
        "collectors": ("default",),
        "wheel_sizes": (OWN,),
        "pure": (False,),
        "requests": 150_000,
        "longest_s": 10.0,
        "repeats": 3,
        "seed": 1,
    }
    return Plan(**{**known, **changes})


def run(made, reach=lambda point: point.rate):
    """Run a plan; returns its rounds."""
    readings, rounds = {}, []
    for points in made.rounds(readings):
        rounds.append(points)
        for point in points:
            found = reach(point)
            readings.setdefault(point, []).extend([] if found is None else [reading(rate_reached=found)])
    return rounds


def test_repeats_are_interleaved_in_a_seeded_order():
    # The fault: the three readings of a point next to each other, so that a bad minute is one contestant's.
    made = plan(contestants=tuple(f"some-{number}" for number in range(12)), repeats=4)
    rounds = run(made)
    assert len({tuple(points) for points in rounds[:4]}) == 4
    assert len({frozenset(points) for points in rounds[:4]}) == 1
    assert rounds == run(made)
    assert rounds != run(plan(contestants=made.contestants, repeats=4, seed=2))


def test_a_saturated_contestant_skips_higher_rates():
    rounds = run(plan(), lambda point: 5_000 if point.contestant == "wait" else point.rate)
    present = [any(point.contestant == "wait" for point in points) for points in rounds]
    assert present == [True] * 3 + [False] * 3 + [True] * 3


def test_one_bad_reading_is_no_saturation():
    # The fault: a machine that was busy for a moment ends a contestant's curve.
    bad = iter([True])
    rounds = run(plan(), lambda point: 100 if next(bad, False) else point.rate)
    assert all(len(points) == 4 for points in rounds)


def test_sizes_apply_to_wheels_and_each_point_runs_once():
    # The faults: a heap run twice for two sizes of wheel; the older wheel run at 20 and at its own, which is 20.
    made = plan(
        contestants=("purgatory_async", "purging_wheel", "call_later", "wait"), wheel_sizes=(OWN, 20, 256)
    )
    [first, *_] = run(made)
    assert {(point.contestant, point.wheel_size) for point in first} == {
        ("purgatory_async", OWN),
        ("purgatory_async", 20),
        ("purging_wheel", OWN),
        ("purging_wheel", 256),
        ("call_later", OWN),
        ("wait", OWN),
    }
    assert len(first) == 6

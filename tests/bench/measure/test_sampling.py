"""Samples take turns, and the summary of their figures is right."""

import asyncio
import gc

import pytest

from bench.measure.collector import Collector
from bench.measure.loops import LOOPS
from bench.measure.sampling import Spread, added_ratios, ratios, take_turns


def sample_that(act):
    async def sample():
        return act()

    return sample


def test_ratios_are_formed_per_round_so_that_drift_cancels():
    assert ratios([10.0, 30.0, 20.0], [20.0, 60.0, 40.0]) == Spread(0.5, 0.5, 0.5)


def test_added_ratios_subtract_the_floor_of_the_same_round():
    assert added_ratios([100.0, 200.0], [110.0, 220.0], [120.0, 240.0]) == Spread(0.5, 0.5, 0.5)


def test_rounds_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_samples_take_turns_after_a_round_that_is_thrown_away():
    turns = []
    figures = iter(range(100))

    def turn(name):
        turns.append(name)
        return float(next(figures))

    taken = take_turns(
        "asyncio",
        Collector.OFF,
        {"a": sample_that(lambda: turn("a")), "b": sample_that(lambda: turn("b"))},
        rounds=2,
    )
    assert turns == ["a", "b"] * 3
    assert taken == {"a": [2.0, 4.0], "b": [3.0, 5.0]}


@pytest.mark.parametrize("loop", LOOPS)
def test_samples_run_on_the_loop_that_is_named(loop):
    def module_of_the_running_loop():
        return type(asyncio.get_running_loop()).__module__

    taken = take_turns(loop, Collector.OFF, {"module": sample_that(module_of_the_running_loop)}, rounds=1)
    assert taken["module"][0].split(".")[0] == loop


def test_what_one_sample_leaves_is_collected_before_the_next():
    class Cycle:
        def __init__(self):
            self.me = self

    def leave_garbage():
        Cycle()
        return 0.0

    alive_at_start = []

    def count():
        alive_at_start.append(sum(isinstance(each, Cycle) for each in gc.get_objects()))
        return 0.0

    take_turns(
        "asyncio", Collector.OFF, {"dirty": sample_that(leave_garbage), "next": sample_that(count)}, rounds=2
    )
    assert alive_at_start == [0, 0, 0]

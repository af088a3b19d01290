"""The contract of every design, and how far each departs from it, as its traits declare."""

import pytest

from bench.designs import DESIGNS
from purgatory_async.testing import ManualClock

TIMEOUT_MS = 100


@pytest.fixture(params=DESIGNS.values(), ids=list(DESIGNS))
def world(request):
    world = World(request.param)
    yield world
    world.purgatory.close()


class World:
    """A design on a manual clock, and an operation type that records its calls."""

    def __init__(self, design):
        self.clock = ManualClock(start=5.0004)
        self.log = []
        self.ready = set()
        self.traits = design.traits
        self.purgatory = design(self.clock)
        world = self

        class Recorded(design.operation):
            def __init__(self, name, timeout_ms=TIMEOUT_MS):
                super().__init__(design.timeout(timeout_ms))
                self.name = name

            def try_complete(self):
                world.log.append(f"{self.name} asked")
                return self.name in world.ready and self.force_complete()

            def on_complete(self):
                world.log.append(f"{self.name} completed")

            def on_expiration(self):
                world.log.append(f"{self.name} expired")

        self.operation = Recorded

    def watched(self, name, *keys, timeout_ms=TIMEOUT_MS):
        operation = self.operation(name, timeout_ms)
        assert not self.purgatory.watch(operation, keys or (name,))
        return operation

    def take_events(self):
        """Return the completions and expirations since the last call."""
        events = [line for line in self.log if not line.endswith("asked")]
        self.log.clear()
        return events

    def advance_ms(self, milliseconds):
        for _ in range(milliseconds):
            self.clock.advance(0.001)


def test_an_operation_whose_condition_holds_completes_at_once(world):
    world.ready.add("a")
    assert world.purgatory.watch(world.operation("a"), ["k"])
    assert world.take_events() == ["a completed"]
    assert world.purgatory.pending == 0


def test_watching_asks_as_often_as_the_design_says(world):
    world.watched("a", "k", "l")
    assert world.log == ["a asked"] * world.traits.checks_per_watch


def test_it_expires_once_and_when_the_design_promises(world):
    world.watched("a")
    world.advance_ms(TIMEOUT_MS - 1 - world.traits.early_ms)
    assert world.take_events() == []
    world.advance_ms(1 + world.traits.early_ms + world.traits.late_ms)
    assert world.take_events() == ["a completed", "a expired"]
    world.advance_ms(1000)
    assert world.take_events() == []
    assert world.purgatory.pending == 0


def test_it_is_not_early_even_by_part_of_a_millisecond(world):
    # The fault: a clock that is rounded down, and nothing added to the deadline.
    began_ns = world.clock.time_ns()
    world.watched("a")
    waited_ms = 0.0
    while world.take_events() == [] and waited_ms < 2 * TIMEOUT_MS:
        world.clock.advance(0.0001)
        waited_ms = (world.clock.time_ns() - began_ns) / 1e6
    assert TIMEOUT_MS - world.traits.early_ms <= waited_ms <= TIMEOUT_MS + world.traits.late_ms


def test_a_check_completes_those_that_hold_oldest_first(world):
    for name in "abcd":
        world.watched(name, "k")
    world.take_events()
    world.ready.update("dbc")
    assert world.purgatory.check("k") == 3
    assert world.take_events() == ["b completed", "c completed", "d completed"]
    assert world.purgatory.check("k") == 0


def test_what_was_completed_neither_completes_again_nor_expires(world):
    operation = world.watched("a", "k", "l")
    assert operation.force_complete()
    assert operation.ended
    assert not operation.force_complete()
    world.ready.add("a")
    assert world.purgatory.check("k") == world.purgatory.check("l") == 0
    world.advance_ms(2 * TIMEOUT_MS)
    assert world.take_events() == ["a completed"]


def test_a_completed_operation_leaves_the_timer_at_once(world):
    world.watched("a").force_complete()
    assert world.purgatory.pending == (1 if world.traits.keeps_timers else 0)


def test_completed_operations_leave_the_lists_at_once(world):
    for number in range(500):
        world.watched(str(number), "k", "l").force_complete()
    assert world.purgatory.kept == (1000 if world.traits.purge_interval else 0)


def test_a_purge_sweeps_what_has_gathered(world):
    interval = world.traits.purge_interval
    if interval is None:
        pytest.skip("this design keeps nothing that has ended")
    stays = world.watched("stays", "k", timeout_ms=60_000)
    # So long that only the purge can be what takes them off the timer.
    for number in range(interval + 1):
        world.watched(str(number), "k", "l", timeout_ms=60_000).force_complete()
    assert world.purgatory.kept > interval
    world.advance_ms(400)
    assert world.purgatory.kept == world.purgatory.pending == 1
    assert not stays.ended


@pytest.mark.parametrize("timeout_ms", [1, 19, 20, 21, 399, 400, 401, 511, 512, 8_000, 8_001])
def test_deadlines_on_every_level_and_round_are_met(world, timeout_ms):
    world.watched("a", timeout_ms=timeout_ms)
    world.advance_ms(max(0, timeout_ms - 1 - world.traits.early_ms))
    assert world.take_events() == []
    world.advance_ms(1 + world.traits.early_ms + world.traits.late_ms)
    assert world.take_events() == ["a completed", "a expired"]


def test_of_a_thousand_each_ends_once(world):
    operations = [
        world.watched(str(number), number % 7, "all", timeout_ms=1 + number % 150) for number in range(1000)
    ]
    world.advance_ms(70)
    for operation in operations[::3]:
        operation.force_complete()
    world.advance_ms(200)
    events = world.take_events()
    completed = [line for line in events if line.endswith("completed")]
    assert len(completed) == len(set(completed)) == 1000
    assert all(operation.ended for operation in operations)
    assert world.purgatory.pending == 0


def test_a_closed_one_asks_for_no_wakeup(world):
    world.watched("a")
    world.purgatory.close()
    world.take_events()
    world.advance_ms(2 * TIMEOUT_MS)
    assert [line for line in world.take_events() if line.endswith("expired")] == []

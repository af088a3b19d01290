"""``inserts`` is the number of the wheel's insertions, for any wheel size and any ending."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory_async.journal.schema import Outcome
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from purgatory_async.timing._entry import entries_of
from tests.journal.journaled import JournaledPurgatory


class CountingWheel(TimingWheel):
    """Counts how often each entry is put into a bucket, at the two places where that happens."""

    __slots__ = ("counts", "kept")

    def __init__(self, wheel_size, start_tick=0):
        super().__init__(wheel_size, start_tick)
        self.counts = Counter()
        self.kept = []  # so that no identity is used twice

    def schedule(self, entry):
        scheduled = super().schedule(entry)
        self.counts[id(entry)] += scheduled
        self.kept.append(entry)
        return scheduled

    def _cascade(self, level, start, budget):
        bucket = self._levels[level][2][start]
        before = list(entries_of(bucket))
        left = super()._cascade(level, start, budget)
        stayed = set() if bucket._next is None else {id(entry) for entry in entries_of(bucket)}
        self.counts.update(id(entry) for entry in before if id(entry) not in stayed)
        return left


SIZES = st.one_of(st.integers(2, 20), st.sampled_from([64, 256, 1_000]))
TICKS = st.integers(1, 5_000)


@settings(max_examples=150)
@given(
    size=SIZES, start=TICKS, steps=st.lists(st.tuples(TICKS, st.integers(1, 900), st.booleans()), max_size=25)
)
def test_insertions_are_those_counted_in_the_wheel(size, start, steps):
    wheel = CountingWheel(size, start)
    entered = {}
    for distance, step, cancel in steps:
        entry = TimerEntry(wheel.now_tick + distance)
        entered[entry] = wheel.now_tick
        wheel.schedule(entry)
        due = wheel.advance(wheel.now_tick + step)
        left = [*due, *([entry] if cancel and wheel.cancel(entry) else [])]
        for one in left:
            counted = wheel.insertions(one.deadline_tick, entered.pop(one), wheel.now_tick)
            assert counted == wheel.counts[id(one)], one.deadline_tick


@settings(max_examples=60)
@given(
    size=SIZES,
    start=st.floats(0, 100),
    steps=st.lists(
        st.tuples(st.floats(0.0001, 8), st.floats(0, 3), st.sampled_from(["wait", "cancel", "complete"])),
        min_size=1,
        max_size=20,
    ),
)
def test_a_recorded_count_is_that_of_the_wheel(size, start, steps):
    wheel = CountingWheel(size)
    with tempfile.TemporaryDirectory() as directory:
        journaled = JournaledPurgatory(Path(directory), start=start, queue=wheel)
        operations = []
        for timeout, pause, what in steps:
            operations.append(journaled.watch("a", timeout=timeout))
            journaled.clock.advance(pause)
            if what == "cancel":
                operations[len(operations) // 2].cancel()
            elif what == "complete":
                journaled.signal("a")
        journaled.clock.advance(10)
        outcomes = [record for record in journaled.close() if isinstance(record, Outcome)]
    assert len(outcomes) == len(operations)
    for record in outcomes:
        assert record.inserts == wheel.counts[id(operations[int(record.op_id) - 1])], record


def test_in_a_wheel_with_rounds_an_operation_is_put_once(tmp_path):
    journaled = JournaledPurgatory(tmp_path, queue=HashedWheel(16))
    journaled.watch("a", timeout=1)
    journaled.watch("b")
    journaled.clock.advance(2)
    journaled.signal("b")
    outcomes = [record for record in journaled.close() if isinstance(record, Outcome)]
    assert [record.inserts for record in outcomes] == [1, 0]


@pytest.mark.parametrize(("timeout", "inserts"), [(0.01, 1), (0.3, 2), (7, 3), (3000, 5)])
def test_an_expired_operation_has_passed_every_level(tmp_path, timeout, inserts):
    journaled = JournaledPurgatory(tmp_path, queue=TimingWheel(20))
    journaled.watch("a", timeout=timeout)
    journaled.clock.advance(4000)
    assert journaled.close()[-1].inserts == inserts

"""Hypothesis looks for the shortest story that a purgatory and its reference tell differently."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.core.model.lockstep import Lockstep
from tests.core.model.script import (
    ADVANCES,
    CHECKS,
    GATES,
    GROUPS,
    KEYS,
    QUEUES,
    RAISED,
    TICKS,
    TIMEOUTS,
    Plan,
)
from tests.machines import explore

# Some plans make a check return a true value that completed nothing; the first one of a run is warned of.
pytestmark = pytest.mark.filterwarnings("ignore:.*RealOperation.try_complete returned:RuntimeWarning")

keys = st.sampled_from(KEYS)
gates = st.integers(0, GATES - 1)
results = st.sampled_from((None, "result", 0))
limits = st.sampled_from((None, None, 1, 3))
timeouts = st.sampled_from(TIMEOUTS)
ages = st.integers(0, 5)  # which operation, counted from the latest


def commands_of_hooks(plans):
    """What a hook may do: signal, end, submit, advance the clock, close, raise."""
    return st.one_of(
        st.tuples(st.just("complete"), keys, results),
        st.tuples(st.sampled_from(("check", "fail", "cancel")), keys),
        st.tuples(st.just("force_complete"), ages, results),
        st.tuples(st.sampled_from(("force_fail", "force_cancel", "submit_again")), ages),
        st.tuples(st.just("reschedule"), ages, timeouts),
        st.tuples(st.just("flip"), gates),
        st.tuples(st.just("throw"), st.sampled_from(tuple(RAISED))),
        st.tuples(st.just("advance"), st.sampled_from(ADVANCES)),
        st.tuples(st.just("submit"), plans),
        st.just(("close",)),
    )


def plans(hooks):
    """Operations whose hooks perform actions drawn from ``hooks``."""
    return st.builds(
        Plan,
        keys=st.sampled_from(GROUPS) | st.lists(keys, min_size=1, max_size=4).map(tuple),
        timeout=timeouts,
        gate=gates,
        check=st.sampled_from(tuple(CHECKS)),
        on_complete=hooks,
        on_expiration=hooks,
        touchy=st.integers(0, 8),
    )


quiet = plans(st.just(()))
lively = plans(st.lists(commands_of_hooks(quiet), max_size=3).map(tuple))
liveliest = plans(st.lists(commands_of_hooks(lively), max_size=3).map(tuple))


class PurgatoryMachine(RuleBasedStateMachine):
    """What can be done to a purgatory from outside; what hooks do to it is in the plans."""

    kind: str

    @initialize(data=st.data(), tick=st.sampled_from(TICKS), max_pending=limits, max_deadlines=limits)
    def begin(self, data, tick, max_pending, max_deadlines):
        queue = data.draw(st.sampled_from([name for name in QUEUES if name.startswith(self.kind)]), "queue")
        self.lockstep = Lockstep(queue, tick, max_pending, max_deadlines)

    @rule(plan=st.one_of(quiet, liveliest))
    def submit(self, plan):
        self.lockstep.perform(("submit", plan))

    @rule(age=ages)
    def submit_again(self, age):
        self.lockstep.perform(("submit_again", age))

    @rule(key=keys)
    def check(self, key):
        self.lockstep.perform(("check", key))

    @rule(gate=gates, key=keys)
    def open_or_shut_a_gate_and_check(self, gate, key):
        self.lockstep.perform(("flip", gate))
        self.lockstep.perform(("check", key))

    @rule(key=keys, result=results)
    def complete_for_key(self, key, result):
        self.lockstep.perform(("complete", key, result))

    @rule(key=keys, verb=st.sampled_from(("fail", "cancel")))
    def end_otherwise_for_key(self, verb, key):
        self.lockstep.perform((verb, key))

    @rule(age=ages, result=results)
    def force_complete(self, age, result):
        self.lockstep.perform(("force_complete", age, result))

    @rule(age=ages, verb=st.sampled_from(("force_fail", "force_cancel")))
    def end_one_otherwise(self, verb, age):
        self.lockstep.perform((verb, age))

    @rule(age=ages, timeout=timeouts)
    def reschedule(self, age, timeout):
        self.lockstep.perform(("reschedule", age, timeout))

    @rule(seconds=st.sampled_from(ADVANCES))
    def advance(self, seconds):
        self.lockstep.perform(("advance", seconds))

    @rule()
    def advance_to_next(self):
        self.lockstep.perform(("advance_to_next",))

    @rule()
    def close(self):
        self.lockstep.perform(("close",))

    @precondition(lambda self: self.lockstep.reference.purgatory.closed)
    @rule()
    def open_another_on_the_same_timer(self):
        self.lockstep.perform(("open",))

    def teardown(self):
        self.lockstep.close()

    @invariant()
    def its_structures_are_sound(self):
        self.lockstep.check_invariants()


class OnTimingWheel(PurgatoryMachine):
    kind = "timing"


class OnHashedWheel(PurgatoryMachine):
    kind = "hashed"


machines = pytest.mark.parametrize(
    "machine", [OnTimingWheel, OnHashedWheel], ids=["timing wheel", "hashed wheel"]
)


@machines
def test_no_short_story_differs_from_the_reference(machine) -> None:
    explore(machine, examples=60, steps=30)


@pytest.mark.slow
@machines
def test_no_longer_story_differs_from_the_reference(machine) -> None:
    explore(machine, examples=600, steps=50)

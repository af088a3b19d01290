"""Hypothesis looks for the shortest story that a hand-off and a plain model of it tell differently.

The loop makes one pass at a time, between the steps of the story, so the model knows what each task has noticed.
"""

import asyncio
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from purgatory_async import Purgatory, PurgatoryFull, Timer
from purgatory_async.patterns import HandOff
from purgatory_async.testing import ManualClock, assert_clean

KEYS = "abc"
keys = st.sampled_from(KEYS)
wishes = st.lists(keys, min_size=1, max_size=3)
timeouts = st.sampled_from((None, None, 1, 2))


class ModelTaker:
    """What is known of a taker: where it stands, what it was given, and how it ended."""

    def __init__(self, wanted, timeout):
        self.wanted, self.timeout, self.deadline = wanted, timeout, None
        self.started = self.cancelled = False
        self.given = None  # (key, number)
        self.end = None  # what its task is going to see, if it was not given anything
        self.got = None  # what its task has seen


class Model:
    """Who takes what: queues of items by key, a queue of takers, and those whose task runs in the next pass."""

    def __init__(self, max_items):
        self.max_items, self.now = max_items, 0.0
        self.items = {key: [] for key in KEYS}  # numbers, which are the items, too: the smallest comes first
        self.waiting, self.ready = [], []
        self.returned = 0

    def put(self, key, number):
        self.items[key].append(number)
        if self.offer(key):
            return True
        if self.max_items is not None and self.kept > self.max_items:
            self.items[key].remove(number)
            return "PurgatoryFull"
        return False

    def put_back(self, key, number):
        self.items[key].insert(0, number)
        return self.offer(key)

    @property
    def kept(self):
        return sum(map(len, self.items.values()))

    def offer(self, key):
        """The first item of a key goes to the oldest taker, who will see it in the next pass."""
        for taker in self.waiting:
            if key in taker.wanted:
                taker.given = (key, self.items[key].pop(0))
                self.wake(taker)
                return True
        return False

    def wake(self, taker):
        self.waiting.remove(taker)
        self.ready.append(taker)

    def take(self, wanted, timeout):
        taker = ModelTaker(wanted, timeout)
        self.ready.append(taker)
        return taker

    def cancel(self, taker):
        taker.cancelled = taker.got is None
        if taker in self.waiting:
            self.wake(taker)

    def send_away(self, key):
        self.end([taker for taker in self.waiting if key in taker.wanted], "OperationCancelled")

    def advance(self, seconds):
        self.now += seconds
        due = [taker for taker in self.waiting if taker.deadline is not None and taker.deadline <= self.now]
        self.end(sorted(due, key=lambda taker: taker.deadline), "OperationExpired")

    def end(self, takers, end):
        for taker in takers:
            taker.end = end
            self.wake(taker)

    def clear(self):
        kept = sorted((number, key) for key, numbers in self.items.items() for number in numbers)
        self.items = {key: [] for key in KEYS}
        return [(key, number) for number, key in kept]

    def make_pass(self):
        stepping, self.ready = self.ready, []
        for taker in stepping:
            self.step(taker)

    def step(self, taker):
        if taker.cancelled:
            taker.got = "CancelledError"
            if taker.given:
                self.returned += 1
                key, number = taker.given
                self.items[key] = sorted([number, *self.items[key]])
                self.offer(key)
        elif taker.started:
            taker.got = taker.given or taker.end
        else:
            self.start(taker)

    def start(self, taker):
        taker.started = True
        for key in taker.wanted:
            if self.items[key]:
                taker.got = (key, self.items[key].pop(0))
                return
        taker.deadline = None if taker.timeout is None else self.now + taker.timeout
        self.waiting.append(taker)


class Taker:
    """A task that takes one item."""

    def __init__(self, loop, jobs, wanted, timeout):
        self.task = loop.create_task(jobs.take(*wanted, timeout=timeout))

    @property
    def got(self):
        """The pair, or the name of the exception; None while it waits."""
        if not self.task.done():
            return None
        if self.task.cancelled():
            return "CancelledError"
        ended = self.task.exception()
        return type(ended).__name__ if ended else self.task.result()


class HandOffMachine(RuleBasedStateMachine):
    """What can be done to a hand-off and its takers."""

    new_loop: staticmethod

    @initialize(max_items=st.sampled_from((None, None, 1, 2, 3)))
    def begin(self, max_items):
        self.loop = self.new_loop()
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.jobs = HandOff(self.purgatory, max_items=max_items)
        self.model = Model(max_items)
        self.takers = []  # pairs, the latest last: the real one and the model's
        self.numbers, self.numbers_before = count(), count(-1, -1)
        self.accepted, self.cleared = [], []

    @rule(key=keys)
    def put(self, key):
        number = next(self.numbers)
        try:
            answer = self.jobs.put(key, number)
        except PurgatoryFull:
            answer = "PurgatoryFull"
        else:
            self.accepted.append((key, number))
        assert answer == self.model.put(key, number)

    @rule(key=keys)
    def put_back(self, key):
        number = next(self.numbers_before)
        self.accepted.append((key, number))
        assert self.jobs.put_back(key, number) is self.model.put_back(key, number)

    @rule(wanted=wishes, timeout=timeouts)
    def take(self, wanted, timeout):
        real = Taker(self.loop, self.jobs, wanted, timeout)
        self.takers.append((real, self.model.take(wanted, timeout)))

    @rule(wishes=st.lists(wishes, min_size=1, max_size=3), timeout=timeouts)
    def come_and_wait(self, wishes, timeout):
        for wanted in wishes:
            self.take(wanted, timeout)
        self.let_the_loop_run(1)

    @precondition(lambda self: self.staying())
    @rule(which=st.integers(0, 20))
    def cancel(self, which):
        staying = self.staying()
        self.cancel_pair(*staying[which % len(staying)])

    @rule(key=keys)
    def put_and_cancel_whoever_got_it(self, key):
        self.put(key)
        for real, model in self.staying():
            if model.given in self.accepted[-1:]:
                self.cancel_pair(real, model)

    def staying(self):
        """The takers who have not left, oldest first."""
        return [pair for pair in self.takers if pair[1].got is None]

    def cancel_pair(self, real, model):
        real.task.cancel()
        self.model.cancel(model)

    @rule(key=keys)
    def send_takers_away(self, key):
        self.purgatory.cancel_for_key(key)
        self.model.send_away(key)

    @rule(seconds=st.sampled_from((0, 0.5, 1, 2)))
    def let_time_pass(self, seconds):
        self.clock.advance(seconds)
        self.model.advance(seconds)

    @rule(passes=st.integers(1, 3))
    def let_the_loop_run(self, passes):
        for _ in range(passes):
            self.loop.stop()
            self.loop.run_forever()  # stopped before, it makes one pass
            self.model.make_pass()

    @rule()
    def clear(self):
        cleared = self.jobs.clear()
        assert cleared == self.model.clear()
        self.cleared += cleared

    @invariant()
    def everybody_got_what_was_due(self):
        if hasattr(self, "model"):
            assert (len(self.jobs), self.jobs.returned) == (self.model.kept, self.model.returned)
            assert [real.got for real, _ in self.takers] == [model.got for _, model in self.takers]

    def teardown(self):
        if hasattr(self, "model"):
            try:
                self.loop.run_until_complete(self.end())
            finally:
                self.loop.close()

    async def end(self):
        """Cancel all takers, and check that every item is in one place."""
        self.purgatory.close()
        await asyncio.gather(*[real.task for real, _ in self.takers], return_exceptions=True)
        assert_clean(self.purgatory)
        got = [real.got for real, _ in self.takers if type(real.got) is tuple]
        assert sorted(got + self.cleared + self.jobs.clear()) == sorted(self.accepted)


@pytest.fixture(params=["asyncio", "uvloop"])
def machine(request):
    """The machine on a kind of loop."""
    return type(
        "Machine",
        (HandOffMachine,),
        {"new_loop": staticmethod(pytest.importorskip(request.param).new_event_loop)},
    )


def test_no_short_story_differs_from_the_model(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30))


@pytest.mark.slow
def test_no_longer_story_differs_from_the_model(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=600, stateful_step_count=50))

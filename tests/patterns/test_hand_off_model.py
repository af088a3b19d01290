"""The machine of `HandOff`: beside queues of items, a queue of takers, and those whose task runs in the next pass."""

import gc
from functools import partial
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.patterns import HandOff
from purgatory_async.testing import ManualClock, assert_clean
from tests.patterns.stories import Reference, Story, Wait, step
from tests.patterns.test_hand_off import takers
from tests.patterns.waiters import let_pass

KEYS = "abc"


class Queues(Reference):
    """Who takes what. A taker that was given an item still has to run; cancelled before, it gives it back."""

    def __init__(self, max_items) -> None:
        super().__init__()
        self.max_items = max_items
        self.items: dict[str, list[int]] = {key: [] for key in KEYS}  # the smallest number comes first
        self.waiting: list[Wait] = []
        self.given: dict[Wait, tuple[str, int]] = {}
        self.returned = 0
        self.closed = False

    @property
    def kept(self) -> int:
        return sum(map(len, self.items.values()))

    def start(self, wait) -> None:
        if wait.end == "cancelled":
            return
        wait.end = self.picked(wait)
        if wait.end is None and self.closed:
            wait.end = PurgatoryClosed
        elif wait.end is None:
            wait.deadline = None if wait.timeout is None else self.now + wait.timeout
            self.waiting.append(wait)

    def cancel(self, wait) -> bool:
        """Its task keeps its turn in the next pass, in which it gives back what it was given."""
        wait.end = "cancelled"
        waited = wait in self.waiting
        if waited:
            self.waiting.remove(wait)
        return waited

    def resume(self, wait) -> None:
        key, number = self.given.pop(wait)
        if wait.end == "cancelled":
            self.returned += 1
            self.items[key] = sorted([number, *self.items[key]])
            self.offer(key)

    def picked(self, wait):
        key = next((key for key in wait.wanted if self.items[key]), None)
        return None if key is None else (key, self.items[key].pop(0))

    def offer(self, key) -> bool:
        """Give the first item of a key to the oldest taker, who will see it in the next pass."""
        for wait in self.waiting:
            if key in wait.wanted:
                wait.end = self.given[wait] = (key, self.items[key].pop(0))
                self.waiting.remove(wait)
                self.next_pass(wait, partial(self.resume, wait))
                return True
        return False

    def put(self, key, number):
        self.items[key].append(number)
        if self.offer(key):
            return True
        if self.max_items is not None and self.kept > self.max_items:
            self.items[key].remove(number)
            return PurgatoryFull
        return False

    def put_back(self, key, number) -> bool:
        self.items[key].insert(0, number)
        return self.offer(key)

    def end(self, waits, end) -> None:
        for wait in waits:
            wait.end = end
            self.waiting.remove(wait)

    def send_away(self, key) -> None:
        self.end([wait for wait in self.waiting if key in wait.wanted], OperationCancelled)

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        due = [wait for wait in self.waiting if wait.deadline is not None and wait.deadline <= self.now]
        self.end(due, OperationExpired)

    def clear(self):
        kept = sorted((number, key) for key, numbers in self.items.items() for number in numbers)
        self.items = {key: [] for key in KEYS}
        return [(key, number) for number, key in kept]


keys = st.sampled_from(KEYS)
wishes = st.lists(keys, min_size=1, max_size=3)
timeouts = st.sampled_from((None, None, 1, 2))
takes = step("take", wishes, timeouts)
puts = step("put", keys)
STEPS = (
    *[takes] * 2,
    *[puts] * 2,
    step("put_back", keys),
    step("cancel", st.integers(0, 20)),
    step("put_and_cancel_who_got_it", keys),
    step("send_away", keys),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2))),
    *[step("turn")] * 2,
    step("clear"),
)


class HandOffMachine(Story):
    last_words = (("close",), ("turn",), ("clear",))

    @initialize(max_items=st.sampled_from((None, None, 1, 2, 3)))
    def begin(self, max_items) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(Queues(max_items)))
        self.jobs: HandOff[str, int] = HandOff(self.purgatory, max_items=max_items)
        self.numbers, self.numbers_before = count(), count(-1, -1)
        self.accepted: list[tuple[str, int]] = []
        self.out: list[object] = []

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(wishes=st.lists(wishes, min_size=1, max_size=3), timeout=timeouts)
    def some_come_and_wait(self, wishes, timeout) -> None:
        self.play(*[("take", wanted, timeout) for wanted in wishes])

    def take(self, wanted, timeout) -> None:
        self.begin_wait(Wait(tuple(wanted), timeout), self.jobs.take(*wanted, timeout=timeout))

    def put(self, key) -> None:
        number = next(self.numbers)
        answer: object
        try:
            answer = self.jobs.put(key, number)
        except PurgatoryFull:
            answer = PurgatoryFull
        else:
            self.accepted.append((key, number))
        assert answer == self.reference.put(key, number)

    def put_back(self, key) -> None:
        number = next(self.numbers_before)
        self.accepted.append((key, number))
        assert self.jobs.put_back(key, number) is self.reference.put_back(key, number)

    def put_and_cancel_who_got_it(self, key) -> None:
        self.put(key)
        for task, wait in self.tasks.items():
            if wait in self.reference.given and wait.end in self.accepted[-1:]:
                task.cancel()
                self.reference.cancel(wait)

    def send_away(self, key) -> None:
        self.purgatory.cancel_for_key(key)
        self.reference.send_away(key)

    def clear(self) -> None:
        cleared = self.jobs.clear()
        assert cleared == self.reference.clear()
        self.out += cleared

    def close(self) -> None:
        self.purgatory.close()
        self.reference.end(list(self.reference.waiting), PurgatoryClosed)
        self.reference.closed = True

    def look(self) -> None:
        reference = self.reference
        assert (len(self.jobs), self.jobs.returned) == (reference.kept, reference.returned)

    def compare(self) -> None:
        super().compare()
        self.out += [wait.end for wait in self.tasks.values() if type(wait.end) is tuple]

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)
            assert sorted(self.out + self.jobs.clear()) == sorted(self.accepted), (
                "an item is lost, or there twice"
            )


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(HandOffMachine)


@pytest.mark.parametrize("end", ["cancelled", "dropped"])
def test_when_the_program_ends_under_a_taker_its_item_is_kept(new_loop, end):
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    jobs = HandOff(purgatory)
    loop = new_loop()
    several = loop.run_until_complete(takers(jobs, 3, "k"))
    jobs.put("k", "item")  # its taker is to be woken when the loop runs again
    if end == "cancelled":
        any(taker.cancel() for taker in several)
        loop.run_until_complete(let_pass(5))
    else:
        loop.set_exception_handler(lambda *_: None)  # asyncio complains of tasks dropped
    loop.close()
    while several:  # dropped, each gives what it has to the next
        several.pop(0)
        gc.collect()
    purgatory.close()
    assert_clean(purgatory)
    assert jobs.clear() == [("k", "item")]

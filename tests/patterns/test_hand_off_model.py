"""The machine of `HandOff`: items, takers and puts in queues, and those whose task runs in the next pass."""

import asyncio
import gc
from collections import Counter
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


class Take(Wait):
    """Waits for an item."""


class Put(Wait):
    """Waits for room; ``wanted`` is its key."""

    def __init__(self, key, item, timeout) -> None:
        super().__init__(key, timeout)
        self.item = item
        self.pending = False  # what it awaits has not ended
        self.called = self.reserved = False


class Join(Wait):
    """Waits until its keys are finished."""


class Queues(Reference):
    """Who takes what. A taker that was given an item still has to run; cancelled before, it gives it back.

    A put that was called for a taker, or has room reserved, still has to run, too.
    """

    def __init__(self, max_items) -> None:
        super().__init__()
        self.max_items = max_items
        self.items: dict[str, list[tuple[int, int]]] = {
            key: [] for key in KEYS
        }  # the smallest place comes first
        self.places, self.places_before = count(), count(-1, -1)
        self.in_hand: Counter[str] = Counter()
        self.waiting: list[Wait] = []
        self.given: dict[Wait, tuple[str, int, int]] = {}
        self.line: list[Put] = []
        self.joining: list[Join] = []
        self.dropped: list[tuple[str, int]] = []
        self.returned = self.reserved = 0
        self.closed = self.shut = self.dropping = False

    @property
    def kept(self) -> int:
        return sum(map(len, self.items.values()))

    @property
    def room(self) -> bool:
        return self.max_items is None or self.kept + self.reserved < self.max_items

    def start(self, wait) -> None:
        if wait.end != "cancelled":
            wait.deadline = None if wait.timeout is None else self.now + wait.timeout
            {Take: self.start_take, Put: self.start_put, Join: self.start_join}[type(wait)](wait)

    def cancel(self, wait) -> bool:
        """Its task keeps its turn in the next pass, in which it gives back what it was given."""
        wait.end = "cancelled"
        if type(wait) is Put:
            return self.wake(wait)
        waits = self.waiting if type(wait) is Take else self.joining
        waited = wait in waits
        if waited:
            waits.remove(wait)
        return waited

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        for wait in [*self.waiting, *self.joining, *self.line]:
            if wait.deadline is not None and wait.deadline <= self.now:
                self.expire(wait)

    def expire(self, wait) -> None:
        if type(wait) is not Put:
            self.end([wait], OperationExpired)
        elif wait.pending:
            wait.end = OperationExpired
            self.wake(wait)

    def end(self, waits, end) -> None:
        for wait in waits:
            wait.end = end
            (self.waiting if type(wait) is Take else self.joining).remove(wait)

    # Takers.

    def start_take(self, wait) -> None:
        if not any(self.items[key] for key in wait.wanted):
            self.call(wait.wanted)
        wait.end = self.picked(wait.wanted)
        if wait.end is not None:
            self.make_room()
        elif self.closed or self.shut:
            wait.end = PurgatoryClosed
        else:
            self.waiting.append(wait)

    def resume(self, wait) -> None:
        key, place, item = self.given.pop(wait)
        if wait.end != "cancelled":
            self.make_room()
            return
        self.returned += 1
        self.leave_hand(key)
        if self.dropping:
            self.dropped.append((key, item))
            self.end_joins()
        else:
            self.items[key] = sorted([(place, item), *self.items[key]])
            self.offer(key)

    def picked(self, keys):
        """The key and the item, which are in hand."""
        key = next((key for key in keys if self.items[key]), None)
        if key is None:
            return None
        self.in_hand[key] += 1
        return key, self.items[key].pop(0)[1]

    def take_nowait(self, keys):
        picked = self.picked(keys)
        if picked is None:
            return PurgatoryClosed if self.closed or self.shut else asyncio.QueueEmpty
        self.make_room()
        return picked

    def offer(self, key) -> bool:
        """Give the first item of a key to the oldest taker, who will see it in the next pass."""
        for wait in self.waiting:
            if key in wait.wanted:
                place, _ = self.items[key][0]
                wait.end = self.picked([key])
                self.given[wait] = (key, place, wait.end[1])
                self.waiting.remove(wait)
                self.next_pass(wait, partial(self.resume, wait))
                return True
        return False

    def send_away(self, key) -> None:
        self.end([wait for wait in self.waiting if key in wait.wanted], OperationCancelled)

    # Puts.

    def put(self, key, item):
        if self.closed or self.shut:
            return PurgatoryClosed
        if any(put.wanted == key for put in self.line):
            return PurgatoryFull
        given = self.place(key, item)
        return PurgatoryFull if given is None else given

    def place(self, key, item, *, reserved=False):
        """Whether a taker has it; None without room."""
        room = self.room or reserved
        self.items[key].append((next(self.places), item))
        if self.offer(key):
            return True
        if not room:
            self.items[key].pop()
            return None
        return False

    def put_back(self, key, item):
        if self.dropping:
            return PurgatoryClosed
        self.items[key].insert(0, (next(self.places_before), item))
        self.leave_hand(key)
        return self.offer(key)

    def start_put(self, wait) -> None:
        wait.end = self.put(wait.wanted, wait.item)
        if wait.end is PurgatoryFull:
            wait.end = None
            wait.pending = True
            self.line.append(wait)

    def resume_put(self, wait) -> None:
        if wait.end is None and (self.closed or self.shut):
            wait.end = PurgatoryClosed
        elif wait.end is None:
            wait.end = self.place(wait.wanted, wait.item, reserved=wait.reserved)
            if wait.end is None:  # the taker that it was called for has left
                wait.called = False
                if wait.deadline is None or wait.deadline > self.now:
                    wait.pending = True
                    return
                wait.end = OperationExpired
        if wait in self.line:
            self.line.remove(wait)
        self.reserved -= wait.reserved
        if wait.called:
            self.call([wait.wanted])
        self.make_room()

    def wake(self, wait) -> bool:
        waited, wait.pending = wait.pending, False
        if waited:
            self.next_pass(wait, partial(self.resume_put, wait))
        return waited

    def call(self, keys) -> None:
        for key in keys:
            first = next((put for put in self.line if put.wanted == key), None)
            if first is not None and not first.called:
                first.called = True
                self.wake(first)

    def make_room(self) -> None:
        while self.line and self.room:
            put = self.line.pop(0)
            if self.wake(put) or put.called:
                put.reserved = True
                self.reserved += 1

    # The end.

    def finished(self, keys) -> bool:
        return not any(self.items[key] or self.in_hand[key] for key in keys or KEYS)

    def start_join(self, wait) -> None:
        if self.closed:
            wait.end = PurgatoryClosed
        elif self.finished(wait.wanted):
            wait.end = "joined"
        else:
            self.joining.append(wait)

    def end_joins(self) -> None:
        self.end([wait for wait in self.joining if self.finished(wait.wanted)], "joined")

    def leave_hand(self, key) -> bool:
        """Whether one was in hand; more are put back than were taken when a new item is put back."""
        in_hand = self.in_hand[key] > 0
        self.in_hand[key] -= in_hand
        return in_hand

    def task_done(self, key):
        return self.end_joins() if self.leave_hand(key) else ValueError

    def clear(self):
        kept = sorted((place, key, item) for key, queue in self.items.items() for place, item in queue)
        self.items = {key: [] for key in KEYS}
        self.end_joins()
        self.make_room()
        return [(key, item) for _, key, item in kept]

    def shutdown(self, immediate) -> None:
        self.shut = True
        for put in self.line:
            self.wake(put)
        if immediate:
            self.dropping = True
            self.dropped += self.clear()
        self.end(list(self.waiting), PurgatoryClosed)

    def close(self) -> None:
        self.closed = True
        self.end([*self.waiting, *self.joining], PurgatoryClosed)
        for put in self.line:
            if put.pending:
                put.end = PurgatoryClosed
                self.wake(put)


keys = st.sampled_from(KEYS)
wishes = st.lists(keys, min_size=1, max_size=3)
timeouts = st.sampled_from((None, None, 1, 2))
takes = step("take", wishes, timeouts)
puts = step("put", keys)
waiting_puts = step("put_wait", keys, timeouts)
STEPS = (
    *[takes] * 2,
    *[puts] * 2,
    *[waiting_puts] * 2,
    step("put_back", keys),
    step("cancel", st.integers(0, 20)),
    step("put_and_cancel_who_got_it", keys),
    step("take_nowait", wishes),
    step("task_done", keys),
    step("join", st.lists(keys, max_size=2), timeouts),
    step("send_away", keys),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2))),
    *[step("turn")] * 2,
    step("clear"),
    step("shutdown", st.integers(0, 15), st.booleans()),
)


class HandOffMachine(Story):
    last_words = (("close",), ("turn",), ("clear",))

    @initialize(max_items=st.sampled_from((None, 1, 1, 2, 3)))
    def begin(self, max_items) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(Queues(max_items)))
        self.jobs: HandOff[str, int] = HandOff(self.purgatory, max_items=max_items)
        self.numbers = count()
        self.accepted: list[tuple[str, int]] = []
        self.out: list[object] = []

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(wishes=st.lists(wishes, min_size=1, max_size=3), timeout=timeouts)
    def some_come_and_wait(self, wishes, timeout) -> None:
        self.play(*[("take", wanted, timeout) for wanted in wishes])

    @rule(keys=st.lists(keys, min_size=1, max_size=5), timeout=timeouts)
    def some_puts_wait(self, keys, timeout) -> None:
        self.play(*[("put_wait", key, timeout) for key in keys])

    def take(self, wanted, timeout) -> None:
        self.begin_wait(Take(tuple(wanted), timeout), self.jobs.take(*wanted, timeout=timeout))

    def put_wait(self, key, timeout) -> None:
        item = next(self.numbers)
        self.begin_wait(Put(key, item, timeout), self.jobs.put_wait(key, item, timeout=timeout))

    def join(self, wanted, timeout) -> None:
        async def join() -> str:
            await self.jobs.join(*wanted, timeout=timeout)
            return "joined"

        self.begin_wait(Join(tuple(wanted), timeout), join())

    def put(self, key) -> None:
        item = next(self.numbers)
        answer = answer_of(self.jobs.put, key, item)
        if type(answer) is bool:
            self.accepted.append((key, item))
        assert answer == self.reference.put(key, item)

    def put_back(self, key) -> None:
        item = next(self.numbers)
        answer = answer_of(self.jobs.put_back, key, item)
        if type(answer) is bool:
            self.accepted.append((key, item))
        assert answer == self.reference.put_back(key, item)

    def put_and_cancel_who_got_it(self, key) -> None:
        self.put(key)
        for task, wait in self.tasks.items():
            if wait in self.reference.given and wait.end in self.accepted[-1:]:
                task.cancel()
                self.reference.cancel(wait)

    def take_nowait(self, wanted) -> None:
        answer = answer_of(self.jobs.take_nowait, *wanted)
        assert answer == self.reference.take_nowait(wanted)
        self.out += [answer] if type(answer) is tuple else []

    def task_done(self, key) -> None:
        assert answer_of(self.jobs.task_done, key) is self.reference.task_done(key)

    def send_away(self, key) -> None:
        self.purgatory.cancel_for_key(key)
        self.reference.send_away(key)

    def clear(self) -> None:
        cleared = self.jobs.clear()
        assert cleared == self.reference.clear()
        self.out += cleared

    def shutdown(self, rarely, immediate) -> None:
        if not rarely:
            self.jobs.shutdown(immediate)
            self.reference.shutdown(immediate)

    def close(self) -> None:
        self.purgatory.close()
        self.reference.close()

    def look(self) -> None:
        reference = self.reference
        assert (len(self.jobs), self.jobs.returned) == (reference.kept, reference.returned)
        assert (f" waiting_puts={len(reference.line)}" in repr(self.jobs)) is bool(reference.line)

    def compare(self) -> None:
        super().compare()
        reference = self.reference
        self.out += [wait.end for wait in self.tasks.values() if type(wait.end) is tuple]
        self.accepted += [
            (wait.wanted, wait.item)
            for wait in self.tasks.values()
            if type(wait) is Put and type(wait.end) is bool
        ]
        assert not (reference.line and reference.room), "a put waits though there is room"
        lined_up = {put.wanted for put in reference.line}
        assert not any(lined_up & {*taker.wanted} for taker in reference.waiting), (
            "a put waits beside a taker"
        )
        assert reference.reserved == 0

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)
            assert sorted(self.out + self.jobs.clear() + self.reference.dropped) == sorted(self.accepted), (
                "an item is lost, or there twice"
            )


def answer_of(call, *arguments) -> object:
    """What a call returns, or the class of what it raises."""
    try:
        return call(*arguments)
    except (PurgatoryClosed, PurgatoryFull, ValueError, asyncio.QueueEmpty) as refused:
        return type(refused)


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

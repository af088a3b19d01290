"""The machine of `Broadcast`: beside its ring a plain list of all items, from which what is kept follows each time."""

from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed
from purgatory_async.patterns import Broadcast, Lagged, Published, SubscriberLagged
from purgatory_async.testing import assert_clean
from tests.patterns.stories import Reference, Story, Wait, step


class Reader:
    """A subscriber."""

    def __init__(self, position, *, raises) -> None:
        self.position = position
        self.raises = raises
        self.ended = False


class Reading(Wait):
    """A wait of `next` after an index, or of a step of a reader."""

    def __init__(self, wanted, timeout=None, reader=None) -> None:
        super().__init__(wanted, timeout)
        self.reader = reader


class Items(Reference):
    """All items, each of which is its size. A position is an index, or None if it was above the newest."""

    def __init__(self, max_items, max_bytes) -> None:
        super().__init__()
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.items: list[int] = []
        self.waiting: list[Reading] = []
        self.closed = self.purgatory_closed = False

    @property
    def newest(self) -> int:
        return len(self.items)

    @property
    def oldest(self) -> int:
        oldest = max(1, self.newest - self.max_items + 1)
        while self.max_bytes is not None and sum(self.items[oldest - 1 :]) > self.max_bytes:
            oldest += 1
        return oldest

    def named(self, after):
        return after if after <= self.newest else None

    def event(self, position):
        if position is None or position < self.oldest - 1:
            index = self.oldest - 1
            return Lagged(None if position is None else index - position, index)
        return Published(position + 1, self.items[position]) if position < self.newest else None

    def start(self, wait) -> None:
        wait.position = self.named(wait.wanted) if wait.reader is None else wait.reader.position
        if (self.purgatory_closed and not self.closed) or (self.closed and wait.reader is None):
            wait.end = PurgatoryClosed
        elif not self.read(wait):
            wait.deadline = None if wait.timeout is None else self.now + wait.timeout
            self.waiting.append(wait)

    def read(self, wait) -> bool:
        """Let a wait read; returns whether that ended it."""
        event, reader = self.event(wait.position), wait.reader
        if event is not None:
            wait.end = event
            if reader is not None:
                reader.position = event.index
                if reader.raises and isinstance(event, Lagged):
                    wait.end = SubscriberLagged
        elif self.closed:
            self.see_end(wait)
        return wait.end is not None

    def see_end(self, wait) -> None:
        wait.end = PurgatoryClosed
        if wait.reader is not None and self.closed:
            wait.end = StopAsyncIteration
            wait.reader.ended = True

    def leave(self, wait) -> bool:
        waited = wait in self.waiting
        if waited:
            self.waiting.remove(wait)
        return waited

    def publish(self, item) -> int:
        self.items.append(item)
        self.wake(self.read)
        return self.newest

    def wake(self, then) -> None:
        """All that wait go on in the next pass."""
        waiting, self.waiting = self.waiting, []
        for wait in waiting:
            self.next_pass(wait, partial(then, wait))

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        for wait in [
            each for each in self.waiting if each.deadline is not None and each.deadline <= self.now
        ]:
            wait.end = OperationExpired
            self.waiting.remove(wait)


offsets = st.integers(-5, 1)  # from the newest item
publishes = step("publish", st.integers(0, 6))
subscribes = step("subscribe", st.none() | offsets, st.sampled_from(("tell", "raise")))
steps_of = step("step_of", st.integers(0, 7))
STEPS = (
    *[publishes] * 3,
    subscribes,
    *[steps_of] * 3,
    step("next", offsets, st.sampled_from((None, None, 1, 2))),
    step("cancel", st.integers(0, 20)),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2))),
    *[step("turn")] * 2,
)


class BroadcastMachine(Story):
    last_words = (("close",), ("turn",), ("close_purgatory",))

    @initialize(max_items=st.integers(1, 4), max_bytes=st.sampled_from((None, None, 5, 8)))
    def begin(self, max_items, max_bytes) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(Items(max_items, max_bytes)))
        self.news = Broadcast(self.purgatory, max_items=max_items, max_bytes=max_bytes, size_of=int)
        self.readers: list[tuple[Reader, object]] = []

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=8))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(item=st.integers(0, 2), number=st.integers(2, 8))
    def a_burst_overtakes_those_that_wait(self, item, number) -> None:
        self.play(*[("step_of", index) for index in range(4)], ("turn",), *[("publish", item)] * number)

    @rule(index=st.integers(0, 7))
    def a_subscriber_is_dropped(self, index) -> None:
        self.play(("drop", index))

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=4), end=st.sampled_from(("close", "close_purgatory")))
    def one_turn_with_its_end(self, steps, end) -> None:
        if self.reference.newest > 8:  # not too early in the story
            self.play(*steps, (end,))

    def publish(self, item) -> None:
        reference = self.reference
        if reference.closed or reference.purgatory_closed:
            with pytest.raises(PurgatoryClosed):
                self.news.publish(item)
        elif reference.max_bytes is not None and item > reference.max_bytes:
            with pytest.raises(ValueError, match="item must be at most"):
                self.news.publish(item)
        else:
            assert self.news.publish(item) == reference.publish(item)

    def subscribe(self, offset, on_lag) -> None:
        after = None if offset is None else max(0, self.reference.newest + offset)
        position = self.reference.newest if after is None else self.reference.named(after)
        subscriber = self.news.subscribe(after=after, on_lag=on_lag)
        self.readers.append((Reader(position, raises=on_lag == "raise"), subscriber))

    def idle(self):
        """The readers that no task reads."""
        busy = [wait.reader for task, wait in self.tasks.items() if not task.done()]
        return [each for each in self.readers if each[0] not in busy]

    def step_of(self, index) -> None:
        if idle := self.idle():
            reader, subscriber = idle[index % len(idle)]
            self.begin_wait(Reading("a step", reader=reader), subscriber.__anext__())

    def next(self, offset, timeout) -> None:
        after = max(0, self.reference.newest + offset)
        self.begin_wait(Reading(after, timeout), self.news.next(after, timeout=timeout))

    def drop(self, index) -> None:
        if idle := self.idle():
            self.readers.remove(idle[index % len(idle)])

    def close(self) -> None:
        self.news.close()
        self.reference.closed = True
        self.reference.wake(self.reference.read)

    def close_purgatory(self) -> None:
        self.purgatory.close()
        self.reference.purgatory_closed = True
        self.reference.wake(self.reference.see_end)

    def look(self) -> None:
        assert (self.news.oldest, self.news.newest) == (self.reference.oldest, self.reference.newest)

    def compare(self) -> None:
        super().compare()
        assert self.purgatory.pending == len(self.reference.waiting)
        assert self.news.subscribers == sum(not reader.ended for reader, _ in self.readers)
        ring = self.news._ring
        assert len(ring.sizes) == len(ring.kept) == self.news.newest - self.news.oldest + 1

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(BroadcastMachine)

"""The machine of `Watermark`: beside a plain list that looks at all its waiters every time."""

from heapq import heappop

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from purgatory_async import OperationExpired, PurgatoryClosed
from purgatory_async.patterns import Watermark
from purgatory_async.testing import assert_clean
from tests.patterns.stories import Reference, Story, Wait, step

FEW = 3  # dead values that are kept, instead of 64: short stories get there, too


class Waiters(Reference):
    """A watermark as a list of waiters, in order of arrival."""

    def __init__(self, value) -> None:
        super().__init__()
        self.value = value
        self.closed = False
        self.waiting: list[Wait] = []
        self.released: list[Wait] = []  # by an advance, in this order

    def start(self, wait) -> None:
        if wait.wanted <= self.value:
            wait.end = self.value
        elif self.closed:
            wait.end = PurgatoryClosed
        else:
            wait.deadline = None if wait.timeout is None else self.now + wait.timeout
            self.waiting.append(wait)

    def leave(self, wait) -> bool:
        waited = wait in self.waiting
        if waited:
            self.waiting.remove(wait)
        return waited

    def advance(self, value) -> int:
        self.value = value
        due = sorted((w for w in self.waiting if w.wanted <= value), key=lambda wait: wait.wanted)
        self.released += due
        return self.end(due, value)

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        late = [w for w in self.waiting if w.deadline is not None and w.deadline <= self.now]
        self.end(late, OperationExpired)

    def end(self, waits, end) -> int:
        for wait in waits:
            wait.end = end
            self.waiting.remove(wait)
        return len(waits)


reaches = step("reach", st.integers(-1, 8), st.sampled_from((None, 0.5, 1, 2, 3)))
advances = step("advance", st.integers(-1, 4))
cancels = step("cancel", st.integers(0, 7))
times = step("pass_time", st.sampled_from((0, 0.5, 1, 2)))


class WatermarkMachine(Story):
    last_words = (("close",),)

    @initialize(value=st.integers(-3, 3))
    def begin(self, value) -> None:
        self.high = Watermark(value, timer=self.begin_on(Waiters(value)))
        self.finished: list[Wait] = []

    @rule(
        steps=st.lists(
            st.one_of(reaches, reaches, advances, cancels, cancels, times, step("turn"), step("fail_all")),
            max_size=8,
        )
    )
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(
        offsets=st.lists(st.integers(1, 30), min_size=4, max_size=12, unique=True), staying=st.integers(0, 4)
    )
    def many_come_and_most_are_cancelled(self, offsets, staying) -> None:
        come = [("reach", offset, None) for offset in offsets]
        self.play(*come, ("turn",), *[("cancel", -1)] * (len(come) - staying))

    @rule(steps=st.lists(st.one_of(reaches, advances, cancels, step("close")), max_size=4))
    def one_turn_with_its_end(self, steps) -> None:
        if len(self.tasks) > 5:  # not too early in the story: nothing much happens after it
            self.play(*steps, ("close",))

    def reach(self, offset, timeout) -> None:
        wait = Wait(self.reference.value + offset, timeout)
        self.begin_wait(wait, self.high.reach(wait.wanted, timeout))
        list(self.tasks)[-1].add_done_callback(lambda _: self.finished.append(wait))

    def advance(self, delta) -> None:
        value = self.reference.value + delta
        if delta < 0:
            with pytest.raises(ValueError, match=str(value)):
                self.high.advance(value)
        else:
            assert self.high.advance(value) == self.reference.advance(value)

    def fail_all(self) -> None:
        waiting = list(self.reference.waiting)
        assert self.high.fail_all(KeyError("office lost")) == self.reference.end(waiting, KeyError)

    def close(self) -> None:
        waited = self.reference.end(list(self.reference.waiting), PurgatoryClosed)
        ended = self.high.close()
        assert 0 <= ended - waited <= self.leaving
        assert not (self.reference.closed and ended)
        self.reference.closed = True

    def compare(self) -> None:
        super().compare()
        reference = self.reference
        assert self.high.value == reference.value
        assert self.high.waiting == len(reference.waiting)
        released = [wait for wait in reference.released if wait.end != "cancelled"]
        assert [wait for wait in self.finished if wait in released] == released, "not in order"
        assert self.timer.pending == sum(wait.deadline is not None for wait in reference.waiting)
        self.finished.clear()
        reference.released.clear()

    @invariant()
    def its_heap_is_sound_and_small(self) -> None:
        values = list(self.high._values)
        assert set(values) == self.high._in_heap
        assert len(values) <= 2 * self.high.waiting + FEW
        assert [heappop(values) for _ in range(len(values))] == sorted(self.high._in_heap)
        assert self.high._in_heap >= {wait.wanted for wait in self.reference.waiting}

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.high._purgatory)


def test_no_story_differs_from_the_reference(tell, monkeypatch) -> None:
    monkeypatch.setattr("purgatory_async.patterns.watermark._FEW", FEW)  # let it sweep early
    tell(WatermarkMachine)

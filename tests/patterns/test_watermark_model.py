"""Hypothesis looks for the shortest story that a watermark and a plain list tell differently.

What happens in one pass of the loop is a list of steps, so that a cancellation, a deadline and an advance may
meet before any task can know. The reference keeps a list and looks at all of it every time.
"""

import asyncio
from heapq import heappop
from importlib.util import find_spec

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from purgatory_async import OperationExpired, PurgatoryClosed, Timer
from purgatory_async.patterns import Watermark
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.conftest import new_uvloop

LOST = KeyError("office lost")
FEW = 3  # dead values that are kept, instead of 64: short stories get there, too


class Waiter:
    """One who waits, in the reference.

    Args:
        value: What it waits for.
        timeout: Seconds from its start; None for ever.
    """

    def __init__(self, value: int, timeout: float | None) -> None:
        self.value = value
        self.timeout = timeout
        self.deadline: float | None = None
        self.end: object = None  # what its task returns or raises; None while it waits


class Reference:
    """A watermark as a list of waiters, in order of arrival.

    Args:
        value: The first value.
    """

    def __init__(self, value: int) -> None:
        self.value = value
        self.now = 0.0
        self.closed = False
        self.waiting: list[Waiter] = []
        self.released: list[Waiter] = []  # by an advance, in this order

    def start(self, waiter: Waiter) -> None:
        if waiter.value <= self.value:
            waiter.end = self.value
        elif self.closed:
            waiter.end = PurgatoryClosed
        else:
            waiter.deadline = None if waiter.timeout is None else self.now + waiter.timeout
            self.waiting.append(waiter)

    def cancel(self, waiter: Waiter) -> None:
        waiter.end = "cancelled"
        if waiter in self.waiting:
            self.waiting.remove(waiter)

    def advance(self, value: int) -> int:
        self.value = value
        due = sorted((w for w in self.waiting if w.value <= value), key=lambda waiter: waiter.value)
        self.released += due
        return self._end(due, value)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        late = [w for w in self.waiting if w.deadline is not None and w.deadline <= self.now]
        self._end(late, OperationExpired)

    def end_all(self, end: object) -> int:
        return self._end(list(self.waiting), end)

    def _end(self, waiters: list[Waiter], end: object) -> int:
        for waiter in waiters:
            waiter.end = end
            self.waiting.remove(waiter)
        return len(waiters)


reaches = st.tuples(st.just("reach"), st.integers(-1, 8), st.sampled_from((None, 0.5, 1, 2, 3)))
advances = st.tuples(st.just("advance"), st.integers(-1, 4))
cancels = st.tuples(st.just("cancel"), st.integers(0, 7))
times = st.tuples(st.just("pass_time"), st.sampled_from((0, 0.5, 1, 2)))
turns = st.just(("turn",))
fails = st.just(("fail_all",))
closes = st.just(("close",))


class WatermarkMachine(RuleBasedStateMachine):
    """A watermark and its reference, with the same calls."""

    new_loop = staticmethod(asyncio.SelectorEventLoop)

    @initialize(value=st.integers(-3, 3))
    def begin(self, value) -> None:
        self.loop = self.new_loop()
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock)
        self.high = Watermark(value, timer=self.timer)
        self.reference = Reference(value)
        self.tasks: dict[asyncio.Task[int], Waiter] = {}
        self.starting: list[Waiter] = []
        self.leaving = 0  # cancelled, and their tasks have yet to run: a count may still include them
        self.finished: list[Waiter] = []

    @rule(
        steps=st.lists(
            st.one_of(reaches, reaches, advances, cancels, cancels, times, turns, fails), max_size=8
        )
    )
    def one_turn(self, steps) -> None:
        self.loop.run_until_complete(self.play(steps))

    @rule(
        offsets=st.lists(st.integers(1, 30), min_size=4, max_size=12, unique=True), staying=st.integers(0, 4)
    )
    def many_come_and_most_are_cancelled(self, offsets, staying) -> None:
        come = [("reach", offset, None) for offset in offsets]
        leave = [("cancel", -1)] * (len(come) - staying)
        self.loop.run_until_complete(self.play([*come, ("turn",), *leave]))

    @rule(steps=st.lists(st.one_of(reaches, advances, cancels, closes), max_size=4))
    def one_turn_with_its_end(self, steps) -> None:
        if len(self.tasks) > 5:  # not too early in the story: nothing much happens after it
            self.loop.run_until_complete(self.play([*steps, ("close",)]))

    async def play(self, steps) -> None:
        for name, *arguments in steps:
            step = getattr(self, name)
            await step() if name == "turn" else step(*arguments)
        await self.turn()
        await settle()
        self.compare()

    # The steps.

    def reach(self, offset, timeout) -> None:
        waiter = Waiter(self.reference.value + offset, timeout)
        task = asyncio.ensure_future(self.high.reach(waiter.value, timeout))
        task.add_done_callback(lambda _: self.finished.append(waiter))
        self.tasks[task] = waiter
        self.starting.append(waiter)

    def advance(self, delta) -> None:
        value = self.reference.value + delta
        if delta < 0:
            with pytest.raises(ValueError, match=str(value)):
                self.high.advance(value)
        else:
            assert self.high.advance(value) == self.reference.advance(value)

    def cancel(self, index) -> None:
        live = [task for task, waiter in self.tasks.items() if not task.done() and waiter.end != "cancelled"]
        if live:
            task = live[index % len(live)]
            waiter = self.tasks[task]
            self.leaving += waiter in self.reference.waiting
            self.starting = [other for other in self.starting if other is not waiter]
            task.cancel()
            self.reference.cancel(waiter)

    def pass_time(self, seconds) -> None:
        self.clock.advance(seconds)
        self.reference.pass_time(seconds)

    def fail_all(self) -> None:
        assert self.high.fail_all(LOST) == self.reference.end_all(LOST)

    def close(self) -> None:
        waited = self.reference.end_all(PurgatoryClosed)
        ended = self.high.close()
        assert 0 <= ended - waited <= self.leaving
        assert not (self.reference.closed and ended)
        self.reference.closed = True

    async def turn(self) -> None:
        """Let every task that can run, run: those that come start, those that were cancelled leave."""
        await asyncio.sleep(0)
        for waiter in self.starting:
            self.reference.start(waiter)
        self.starting.clear()
        self.leaving = 0

    # What is compared.

    def compare(self) -> None:
        reference = self.reference
        assert self.high.value == reference.value
        assert self.high.waiting == len(reference.waiting)
        for task, waiter in self.tasks.items():
            assert told_by(task) == waiter.end, f"the wait for {waiter.value} ended {told_by(task)!r}"
        released = [waiter for waiter in reference.released if waiter.end != "cancelled"]
        in_order = [waiter for waiter in self.finished if waiter in released]
        assert [waiter.value for waiter in in_order] == [waiter.value for waiter in released]
        assert in_order == released, "of two who waited for one value the later went first"
        assert self.timer.pending == sum(waiter.deadline is not None for waiter in reference.waiting)
        self.tasks = {task: waiter for task, waiter in self.tasks.items() if not task.done()}
        self.finished.clear()
        reference.released.clear()

    @invariant()
    def its_heap_is_sound_and_small(self) -> None:
        values = list(self.high._values)
        assert set(values) == self.high._in_heap
        assert len(values) <= 2 * self.high.waiting + FEW
        assert [heappop(values) for _ in range(len(values))] == sorted(self.high._in_heap)
        assert self.high._in_heap >= {waiter.value for waiter in self.reference.waiting}

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.loop.run_until_complete(self.play([("close",)]))
        assert_clean(self.high._purgatory)
        assert (self.timer.pending, self.timer.next_deadline) == (0, None)
        self.loop.close()


def told_by(task) -> object:
    """What a task returned or raised, as the reference tells it."""
    if not task.done():
        return None
    if task.cancelled():
        return "cancelled"
    exception = task.exception()
    if exception is None:
        return task.result()
    return exception if exception is LOST else type(exception)


class OnUvloop(WatermarkMachine):
    """The same on the other loop."""

    new_loop = staticmethod(new_uvloop)


machines = pytest.mark.parametrize(
    "machine",
    [
        pytest.param(WatermarkMachine, id="asyncio"),
        pytest.param(
            OnUvloop,
            id="uvloop",
            marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
        ),
    ],
)


@pytest.fixture(autouse=True)
def few(monkeypatch) -> None:
    """Let it sweep early."""
    monkeypatch.setattr("purgatory_async.patterns.watermark._FEW", FEW)


@machines
def test_no_short_story_differs_from_the_reference(machine) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=50, stateful_step_count=20))


@pytest.mark.slow
@machines
def test_no_longer_story_differs_from_the_reference(machine) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=300, stateful_step_count=25))

"""The machine of `SingleFlight`: calls that begin, end, are left and clean up, pass of the loop by pass of the loop."""

import asyncio
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from purgatory_async import OperationCancelled, OperationExpired, Purgatory, PurgatoryClosed, Timer
from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.patterns.flights import Service, callers
from tests.patterns.stories import Reference, Story, Wait, step
from tests.patterns.waiters import let_pass

KEYS = "ab"
CLEAN_UP = 3
FAILURE, CANCELLATION = LookupError, "cancelled"


class Call:
    """One call: called for by some, begun, ended when its task is done, landed when its callers know."""

    def __init__(self, key) -> None:
        self.key = key
        self.callers: list[Wait] = []
        self.heir: Call | None = None
        self.number: int | None = None  # of the calls that have begun
        self.answer: object = None
        self.to_cancel = False  # its task has yet to know
        self.done = self.landed = self.unseen = False


class Calls(Reference):
    """Who waits for which call. What tasks do, they do in the next pass, and tell others in the one after."""

    def __init__(self, keep, when_left) -> None:
        super().__init__()
        self.keep = keep
        self.cancels = when_left == "cancel"
        self.newest: dict[str, Call] = {}
        self.under_way: set[Call] = set()
        self.begun: list[Call] = []
        self.kept: dict[str, tuple[float, object]] = {}
        self.waiting: dict[Wait, Call] = {}
        self.outcomes: dict[Wait, object] = {}
        self.reported = 0
        self.closed = False

    # Callers.

    def start(self, wait) -> None:
        key = wait.wanted
        if self.closed:
            wait.end = PurgatoryClosed
            return
        if self.is_kept(key):
            wait.end = self.kept[key][1]
            return
        ahead = self.newest.get(key)
        call = ahead
        if ahead is not None and self.cancels and not ahead.callers:
            if ahead.heir is None or not ahead.heir.callers:
                ahead.heir = Call(key)
            call = ahead.heir
        elif ahead is None:
            call = self.newest[key] = Call(key)
            self.launch(call)
        call.callers.append(wait)
        wait.deadline = None if wait.timeout is None else self.now + wait.timeout
        self.waiting[wait] = call

    def cancel(self, wait) -> bool:
        wait.end = "cancelled"
        if wait not in self.waiting:  # its task has not begun
            self._ready = [each for each in self._ready if each[0] is not wait]
        elif wait not in self.outcomes:
            self.outcomes[wait] = "cancelled"
            self.next_pass(None, partial(self.resume, wait))
        return False

    def end(self, wait, outcome) -> None:
        """End a wait; its task knows in the next pass."""
        if wait not in self.outcomes:
            self.outcomes[wait] = outcome
            self.next_pass(None, partial(self.resume, wait))

    def resume(self, wait) -> None:
        outcome = self.outcomes.pop(wait)
        call = self.waiting.pop(wait)
        if wait.end != "cancelled":
            wait.end = outcome
            if call.landed and outcome is FAILURE:
                call.unseen = False
        call.callers.remove(wait)
        if not call.callers and call.landed:
            self.reported += call.unseen
            call.unseen = False
        elif not call.callers and self.cancels:
            self.cancel_call(call)

    def pass_time(self, seconds) -> None:
        super().pass_time(seconds)
        for wait in list(self.waiting):
            if wait.deadline is not None and wait.deadline <= self.now:
                self.end(wait, OperationExpired)

    def close(self) -> None:
        self.closed = True
        for wait in list(self.waiting):
            self.end(wait, PurgatoryClosed)

    # Calls.

    def launch(self, call) -> None:
        self.under_way.add(call)
        self.next_pass(None, partial(self.begin, call))

    def begin(self, call) -> None:
        if call.to_cancel:
            self.finish(call, CANCELLATION)
        else:
            call.number = len(self.begun)
            self.begun.append(call)

    def open(self) -> list[Call]:
        """The calls that wait for their answer."""
        return [call for call in self.begun if call.answer is None]

    def give(self, call, answer) -> None:
        call.answer = answer
        self.next_pass(None, partial(self.wake, call))

    def cancel_call(self, call) -> None:
        if call not in self.under_way or call.done:
            return
        call.to_cancel = True
        if call.number is not None and call.answer is None:
            self.give(call, CANCELLATION)

    def wake(self, call) -> None:
        if call.to_cancel or call.answer is CANCELLATION:
            call.to_cancel = False
            self.next_pass(None, partial(self.clean_up, call, CLEAN_UP))
        else:
            self.finish(call, call.answer)

    def clean_up(self, call, passes) -> None:
        if call.to_cancel or passes == 1:
            self.finish(call, CANCELLATION)
        else:
            self.next_pass(None, partial(self.clean_up, call, passes - 1))

    def finish(self, call, answer) -> None:
        call.done = True
        self.next_pass(None, partial(self.land, call, answer))

    def land(self, call, answer) -> None:
        call.landed = True
        self.under_way.discard(call)
        is_newest = self.newest.get(call.key) is call
        if is_newest:
            del self.newest[call.key]
        if answer is FAILURE:
            call.unseen = bool(call.callers)
            self.reported += not call.callers
        elif answer is not CANCELLATION and is_newest and self.keep:
            self.kept[call.key] = (self.now + self.keep, answer)
        for wait in list(call.callers):
            self.end(wait, OperationCancelled if answer is CANCELLATION else answer)
        if call.heir is not None and call.heir.callers:
            if is_newest:
                self.newest[call.key] = call.heir
            self.launch(call.heir)

    def is_kept(self, key) -> bool:
        return key in self.kept and self.now < self.kept[key][0]

    def forget(self, key) -> bool:
        was_kept = self.is_kept(key)
        self.kept.pop(key, None)
        return (self.newest.pop(key, None) is not None) or was_kept


keys = st.sampled_from(KEYS)
timeouts = st.sampled_from((None, None, 1, 2))
runs = step("run", keys, timeouts)
answers = step("answer", st.integers(0, 3), st.sampled_from(("result", "result", FAILURE, CANCELLATION)))
cancels = step("cancel", st.integers(0, 20))
turns = step("turn")
STEPS = (
    *[runs] * 3,
    *[answers] * 2,
    *[cancels] * 2,
    step("forget", keys),
    step("pass_time", st.sampled_from((0, 0.5, 1, 2))),
    *[turns] * 4,
)


class SingleFlightMachine(Story):
    last_words = (("close",), ("answer_the_rest",), ("turn",))

    @initialize(keep=st.sampled_from((0, 1)), when_left=st.sampled_from(("cancel", "cancel", "finish")))
    def begin(self, keep, when_left) -> None:
        self.purgatory = Purgatory(timer=self.begin_on(Calls(keep, when_left)))
        self.flight = SingleFlight(self.purgatory, keep=keep, when_left=when_left)
        self.service = Service(CLEAN_UP)
        self.reports: list[object] = []
        self.loop.set_exception_handler(lambda _, context: self.reports.append(context["message"]))

    @rule(steps=st.lists(st.one_of(*STEPS), max_size=12))
    def one_turn(self, steps) -> None:
        self.play(*steps)

    @rule(key=keys, passes=st.integers(0, 6), then=st.lists(st.one_of(*STEPS), max_size=4))
    def all_leave_and_some_come(self, key, passes, then) -> None:
        """What is rare by chance: newcomers beside a call that cleans up."""
        leaving = [("cancel", 0)] * len(self.tasks)
        self.play(*leaving, *[("turn",)] * passes, ("run", key, None), *then)

    def run(self, key, timeout) -> None:
        self.begin_wait(Wait(key, timeout), self.flight.run(key, self.service.fetch, timeout=timeout))

    def answer(self, index, kind) -> None:
        calls = self.reference.open()
        if not calls:
            return
        call = calls[index % len(calls)]
        future = self.service.answers[call.number]
        if kind == "result":
            future.set_result(call.number)
        elif kind is FAILURE:
            future.set_exception(FAILURE())
        else:
            future.cancel()
        self.reference.give(call, call.number if kind == "result" else kind)

    def answer_the_rest(self) -> None:
        while self.reference.open():
            self.answer(0, "result")

    def forget(self, key) -> None:
        assert self.flight.forget(key) is self.reference.forget(key)

    def close(self) -> None:
        self.purgatory.close()
        self.reference.close()

    def look(self) -> None:
        reference = self.reference
        assert len(self.flight) == len(reference.under_way)
        assert [key in self.flight for key in KEYS] == [key in reference.newest for key in KEYS]
        assert self.service.calls == len(reference.begun)
        assert len(self.reports) == reference.reported

    def teardown(self) -> None:
        super().teardown()
        if self.loop is not None:
            assert_clean(self.purgatory)
            assert len(self.flight) == 0


def test_no_story_differs_from_the_reference(tell) -> None:
    tell(SingleFlightMachine)


def test_a_loop_that_was_closed_takes_its_calls_along(new_loop):
    async def begin():
        task = asyncio.create_task(flight.run("k", service.fetch))
        await settle()
        task.cancel()
        await settle()

    async def again():
        (one,) = await callers(flight, service.fetch, 1)
        service.answer("a page")
        return await one.end()

    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    flight, service = SingleFlight(purgatory, when_left="finish"), Service()
    first, second = new_loop(), new_loop()
    first.run_until_complete(begin())
    first.set_exception_handler(lambda *_: None)  # asyncio complains of tasks dropped
    first.close()
    assert second.run_until_complete(again()) == "a page"
    second.close()
    assert (service.calls, len(flight)) == (2, 0)
    assert_clean(purgatory)


@pytest.mark.parametrize(("factory", "interrupts"), [("lazy", 3), ("eager_task_factory", 1)])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_of_a_call_leaves_nothing(factory, interrupts):
    if factory != "lazy" and not hasattr(asyncio, factory):
        pytest.skip("eager tasks came with CPython 3.12")
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    flight, tasks = SingleFlight(purgatory), []

    async def interrupted():
        raise KeyboardInterrupt

    async def begin():
        asyncio.get_running_loop().set_exception_handler(
            lambda *_: None
        )  # an eager task reports its own, too
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, factory, None))
        tasks.extend(asyncio.ensure_future(flight.run("k", interrupted)) for _ in range(2))
        await let_pass(5)

    async def check():
        await let_pass(5)
        return len(flight), "k" in flight, [task.done() for task in tasks if not task.done()]

    with asyncio.Runner() as runner:
        for number in range(interrupts):  # of the call, and of each caller
            with pytest.raises(KeyboardInterrupt):
                runner.run(begin() if number == 0 else let_pass(5))
        assert runner.run(check()) == (0, False, [])
    assert_clean(purgatory)

"""A task cancelled at any point, during any other event: nothing leaks, is swallowed or is lost.

Every public coroutine is cancelled at every point where it can be, with an event just before, between the
cancellation and the moment its task notices, and after. Two witnesses wait for the same event all the while.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    Timer,
)
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.cancelling import Way, by_task_cancel, each_way

NO_ANSWER = "cancelled, or still waiting"


class PlannedError(Exception):
    """What a failed operation fails with."""


class Scene:
    """One purgatory, an operation in it, two witnesses, and the event that ends it all."""

    def __init__(self, event: str, max_pending: int | None = None) -> None:
        self.event = event
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, max_pending=max_pending)
        self.purgatory = Purgatory(timer=self.timer)
        self.operation: DelayedOperation[str] = DelayedOperation(timeout=1)
        self.purgatory.try_complete_else_watch(self.operation, ["door"])
        self.delivered = ""
        self.has_happened = False
        self.answer: object = NO_ANSWER

    async def begin(self) -> None:
        """Send the witnesses in: one awaits the operation, the other waits on the key."""
        self.witnesses = [
            asyncio.create_task(outcome_of(self.operation)),
            asyncio.create_task(outcome_of(self.purgatory.wait("door", timeout=1))),
        ]
        await asyncio.sleep(0)

    def happen_after(self, passes: int) -> None:
        """Trigger the event after this many passes of the loop."""
        loop = asyncio.get_running_loop()
        if passes:
            loop.call_soon(self.happen_after, passes - 1)
        else:
            loop.call_soon(self.happen)

    def happen(self) -> None:
        """Trigger the event now; end whatever it does not end a pass later."""
        self.has_happened = True
        if self.event == "complete":
            self.delivered = "parcel"
            self.purgatory.check_and_complete("door")
            self.purgatory.complete_for_key("door", "parcel")
        elif self.event == "expire":
            self.clock.advance(1)
        elif self.event == "fail":
            self.purgatory.fail_for_key("door", PlannedError())
        else:
            self.purgatory.close()
        asyncio.get_running_loop().call_soon(self.wrap_up)

    def wrap_up(self) -> None:
        """Let the sleepers sleep out, and send away who waits for nothing that will come."""
        self.clock.advance(2)
        self.purgatory.close()

    async def play(self, subject: "Subject") -> None:
        """Let a coroutine wait, and see at once, when it ends or is cancelled, that it left nothing."""
        try:
            self.answer = await outcome_of(subject(self))
        finally:
            assert list(self.purgatory.operations("window")) == [], "its other key still has a watcher"
            assert self.timer.pending == self.purgatory.pending, "its deadline is still pending"
            self.timer.check_invariants()

    async def end(self, subject: "Subject") -> None:
        """See, when everything is over, that the operation, both witnesses and the subject tell the same truth."""
        allowed = {ENDS[self.event]}
        if subject is wait_inside_async_with:
            allowed.add(Outcome.CLOSED)  # which it does on its way out, also when it was cancelled
        if not self.has_happened:
            self.happen()
        await settle()
        outcome = self.operation.outcome
        assert outcome in allowed
        answers = {NO_ANSWER, right_answer(subject, outcome)}
        assert self.answer in answers or (subject is wait_for_a_turn and self.answer == "OperationExpired")
        assert self.operation.result == ("parcel" if outcome is Outcome.COMPLETED else None)
        awaited, waited = [await witness for witness in self.witnesses]
        assert awaited == ("PlannedError" if outcome is Outcome.FAILED else outcome)
        assert waited == WAIT_ENDS[outcome]
        assert_clean(self.purgatory)
        assert self.timer.pending == 0
        assert self.timer.next_deadline is None


Subject = Callable[[Scene], Awaitable[object]]

ENDS = {
    "complete": Outcome.COMPLETED,
    "expire": Outcome.EXPIRED,
    "fail": Outcome.FAILED,
    "close": Outcome.CLOSED,
}
WAIT_ENDS = {
    Outcome.COMPLETED: "parcel",
    Outcome.EXPIRED: "OperationExpired",
    Outcome.FAILED: "PlannedError",
    Outcome.CLOSED: "PurgatoryClosed",
}


async def outcome_of(awaitable: Awaitable[object]) -> object:
    """What it returns, or the name of what it raises; a cancellation goes on its way."""
    try:
        return await awaitable
    except (OperationExpired, PurgatoryClosed, PlannedError) as ended:
        return type(ended).__name__


# Every public coroutine. What they watch beside "door" is "window", so that a leak of theirs is visible.


async def wait_for_keys(scene: Scene) -> object:
    return await scene.purgatory.wait("door", "window", timeout=1)


async def wait_without_a_deadline(scene: Scene) -> object:
    return await scene.purgatory.wait("door", "window")


async def wait_for_a_turn(scene: Scene) -> object:
    return await scene.purgatory.wait("door", "window", timeout=0)


async def wait_until_a_condition_holds(scene: Scene) -> object:
    return await scene.purgatory.wait("window", "door", until=lambda: scene.delivered, timeout=1)


async def await_an_operation(scene: Scene) -> object:
    return await scene.operation


async def run_an_operation(scene: Scene) -> object:
    return await scene.purgatory.run(DelayedOperation(timeout=1), ["door", "window"])


async def sleep_on_the_timer(scene: Scene) -> None:
    await scene.timer.sleep(1)


async def drain(scene: Scene) -> bool:
    return await scene.purgatory.drain()


async def drain_for_a_time(scene: Scene) -> bool:
    return await scene.purgatory.drain(timeout=0.5)


async def wait_inside_async_with(scene: Scene) -> object:
    async with scene.purgatory:
        return await scene.purgatory.wait("door", "window", timeout=1)


SUBJECTS = (
    wait_for_keys,
    wait_without_a_deadline,
    wait_until_a_condition_holds,
    await_an_operation,
    run_an_operation,
    sleep_on_the_timer,
    drain,
    drain_for_a_time,
    wait_inside_async_with,
)
# `cancel_sweep` cancels in the pass after the one in which the coroutine was suspended.
MOMENTS = {"just before": 0, "before it is noticed": 1, "right after": 2, "long after": 12}


def right_answer(subject: Subject, outcome: Outcome) -> object:
    """What a subject returns or raises if it was not cancelled and its operation ended so."""
    if subject is sleep_on_the_timer:
        return None
    if subject in (drain, drain_for_a_time):
        return True
    if subject in (await_an_operation, run_an_operation):
        return "PlannedError" if outcome is Outcome.FAILED else outcome
    if subject is wait_without_a_deadline and outcome is Outcome.EXPIRED:
        return "PurgatoryClosed"  # by `Scene.wrap_up`
    return WAIT_ENDS[outcome]


each_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
# Where it is no harm that one ends by itself.
each_subject_and_a_short_one = pytest.mark.parametrize(
    "subject", [*SUBJECTS, wait_for_a_turn], ids=lambda subject: subject.__name__
)
each_event = pytest.mark.parametrize("event", ENDS)


@asynccontextmanager
async def nothing_reported() -> AsyncIterator[None]:
    """Assert that the loop's exception handler got no call, and that no task is left."""
    contexts: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    yield
    assert contexts == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
@each_subject_and_a_short_one
@each_event
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("max_pending", [None, 3], ids=["any number", "limited"])
async def test_cancelled_anywhere_it_leaks_swallows_and_loses_nothing(
    subject: Subject, event: str, moment: str, max_pending: int | None
) -> None:
    scenes: list[Scene] = []

    async def scenario() -> None:
        scene = Scene(event, max_pending)
        scenes.append(scene)
        await scene.begin()
        scene.happen_after(MOMENTS[moment])
        await scene.play(subject)

    async with nothing_reported():
        points = await cancel_sweep(scenario)
        assert points >= 2, "it was never suspended beside the point where the witnesses are sent in"
        # One run without a cancellation, two for each point; the one cancelled before its first step has no scene.
        assert len(scenes) == 1 + 2 * points
        for scene in scenes:
            await scene.end(subject)


@pytest.mark.asyncio
@each_subject
@each_way
async def test_however_it_is_cancelled_the_others_are_not_disturbed(subject: Subject, cancel: Way) -> None:
    scene = Scene("complete")
    async with nothing_reported():
        await scene.begin()
        await cancel(scene.play(subject))
        if subject is wait_inside_async_with:
            assert scene.operation.outcome is Outcome.CLOSED
            scene.event = "close"
        else:
            assert scene.purgatory.pending == 2
            assert not any(witness.done() for witness in scene.witnesses)
        await scene.end(subject)


@pytest.mark.asyncio
@each_way
async def test_cancelling_one_of_several_awaiters_ends_only_that_one(cancel: Way) -> None:
    scene = Scene("complete")
    async with nothing_reported():
        await scene.begin()
        others = [asyncio.create_task(outcome_of(scene.operation)) for _ in range(3)]
        await cancel(scene.play(await_an_operation))
        assert scene.operation.outcome is None
        await scene.end(await_an_operation)
        assert [await other for other in others] == [Outcome.COMPLETED] * 3


@pytest.mark.asyncio
@pytest.mark.parametrize("subject", [drain, drain_for_a_time], ids=["without a time", "for a time"])
async def test_a_cancelled_drain_stays_a_drain(subject: Subject) -> None:
    scene = Scene("complete")
    await scene.begin()
    await by_task_cancel(scene.play(subject))
    with pytest.raises(PurgatoryClosed):
        scene.purgatory.try_complete_else_watch(DelayedOperation(), ["door"])
    assert not scene.purgatory.closed
    again = asyncio.create_task(scene.purgatory.drain())
    await scene.end(subject)
    assert await again is True


@pytest.mark.asyncio
async def test_cancelled_before_its_first_step_nothing_was_registered() -> None:
    scene = Scene("complete")
    await scene.begin()
    task = asyncio.create_task(scene.purgatory.wait("window", timeout=1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.purgatory.keys == 1
    await scene.end(wait_for_keys)


@pytest.mark.asyncio
@pytest.mark.parametrize("subject", [wait_for_keys, wait_until_a_condition_holds], ids=["keyed", "until"])
@pytest.mark.parametrize("event", ENDS)
async def test_a_wait_of_a_just_cancelled_task_is_no_longer_counted(subject: Subject, event: str) -> None:
    scene = Scene(event)
    task = asyncio.create_task(scene.play(subject))
    await settle()
    task.cancel()
    # Its task does not know yet, and it is still listed; but cannot take what comes.
    if event == "complete":
        assert scene.purgatory.complete_for_key("window", "parcel") == 0
    elif event == "fail":
        assert scene.purgatory.fail_for_key("window", PlannedError()) == 0
    elif event == "expire":
        scene.clock.advance(1)
    else:
        scene.purgatory.close()
    assert not list(scene.purgatory.operations("window"))
    with pytest.raises(asyncio.CancelledError):
        await task
    scene.purgatory.close()
    assert_clean(scene.purgatory)


@pytest.mark.asyncio
async def test_what_was_brought_for_a_cancelled_wait_goes_to_the_next() -> None:
    tokens: list[str] = []
    async with Purgatory(timer=Timer(clock=ManualClock())) as purgatory:
        first, second = [
            asyncio.create_task(purgatory.wait("token", until=lambda: tokens and tokens.pop()))
            for _ in range(2)
        ]
        await settle()
        first.cancel()
        tokens.append("the only token")
        # Both are asked in order of arrival, but the first task has been cancelled.
        assert purgatory.check_and_complete("token") == 1
        assert await second == "the only token"
        await settle()
        assert first.cancelled()
        assert_clean(purgatory)

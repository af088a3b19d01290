"""The latest intent for a key counts: replacing it, cancelling it, and how many there may be."""

import asyncio
import contextvars
import weakref

import pytest

from purgatory_async import PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.patterns import Retrier
from purgatory_async.testing import ManualClock, settle
from tests.loop.worlds import SteppedWorld, reports
from tests.patterns.calls import Call
from tests.patterns.desk import Desk
from tests.patterns.diary import by_reference_counts_alone

who = contextvars.ContextVar("who", default="unset")


# Replacing.


@pytest.mark.asyncio
async def test_a_newer_intent_replaces_a_waiting_one_and_its_delay() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    register = desk.call()
    await world.run(4)
    unregister = desk.call(0)
    assert (desk.retrier.pending, desk.timer.pending) == (1, 1)
    await world.run(1000)
    assert (register.begun, unregister.begun, desk.given_up) == ([], [9], [])


@pytest.mark.asyncio
async def test_a_newer_intent_has_all_its_attempts_and_its_first_delay() -> None:
    world = SteppedWorld()
    desk = Desk(world, delay=1, backoff=3)
    register = desk.call()
    await world.run(6)
    assert register.begun == [1, 4]
    unregister = desk.call()
    await world.run(1000)
    assert (register.begun, unregister.begun) == ([1, 4], [7, 10, 19])
    assert desk.given_up == [("key", unregister.errors[-1])]


@pytest.mark.parametrize("failures", [None, 0], ids=["it fails", "it succeeds"])
@pytest.mark.asyncio
async def test_an_intent_replaced_during_its_attempt_is_not_retried(
    failures: int | None,
) -> None:
    world, reported = SteppedWorld(), reports()
    desk = Desk(world, attempts=1)
    register = desk.call(failures, takes=2, line=(line := []))
    await world.run(6)
    unregister = desk.call(0, takes=2, line=line)
    await world.run(1000)
    assert (register.begun, register.ended, register.cancelled) == ([5], [7], 0)
    assert (unregister.begun, unregister.succeeded) == ([11], 1)
    assert (desk.given_up, reported, desk.retrier.pending) == ([], [], 0)


@pytest.mark.asyncio
async def test_an_intent_due_during_an_attempt_starts_right_after_it() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    register = desk.call(takes=20, line=(line := []))
    await world.run(6)
    unregister = desk.call(1, takes=2, line=line)
    await world.run(1000)
    assert (register.begun, register.ended) == ([5], [25])
    # It was due at 11; the next attempt is due a delay after that, which has passed, so after the end.
    assert unregister.begun[0] == 25
    assert unregister.begun[1] >= unregister.ended[0] + 5 - 1e-9
    assert unregister.succeeded == 1


@pytest.mark.asyncio
async def test_of_several_due_during_an_attempt_only_the_last_runs() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    first = desk.call(takes=30, line=(line := []))
    await world.run(6)
    second = desk.call(0, line=line)
    await world.run(6)
    third = desk.call(0, line=line)
    await world.run(14)
    fourth = desk.call(0, line=line)
    await world.run(1000)
    assert (first.begun, second.begun, third.begun, fourth.begun) == ([5], [], [], [35])
    assert desk.retrier.pending == 0


@pytest.mark.asyncio
async def test_an_intent_submitted_inside_an_attempt_takes_its_place() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    second = Call(desk.timer, 0)

    async def attempt() -> None:
        desk.retrier.submit("key", second.attempt)
        await asyncio.sleep(0)
        raise OSError("broken")

    desk.retrier.submit("key", attempt)
    await world.run(1000)
    assert (second.begun, desk.given_up, desk.retrier.pending) == ([10], [], 0)


@pytest.mark.asyncio
async def test_an_attempt_that_moves_the_clock_is_not_overlapped() -> None:
    clock = ManualClock()
    retrier = Retrier[str](timer := Timer(clock=clock))
    line: list[str] = []
    second = Call(timer, 0, line=line)

    async def attempt() -> None:
        line.append("busy")
        retrier.submit("key", second.attempt)
        clock.advance(100)
        await asyncio.sleep(0)
        line.pop()

    retrier.submit("key", attempt)
    clock.advance(5)
    await settle()
    assert (second.succeeded, retrier.pending) == (1, 0)


@pytest.mark.asyncio
async def test_attempts_for_different_keys_do_not_wait_for_one_another() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    calls = [Call(desk.timer, 0, takes=50) for _ in range(10)]
    for number, call in enumerate(calls):
        desk.retrier.submit(number, call.attempt)
    await world.run(1000)
    assert [call.begun for call in calls] == [[5]] * 10


@pytest.mark.asyncio
async def test_an_intent_delayed_by_an_attempt_keeps_its_context() -> None:
    world, seen = SteppedWorld(), []
    desk = Desk(world)

    async def first() -> None:
        await desk.timer.sleep(30)
        seen.append(who.get())

    async def second() -> None:
        seen.append(who.get())

    who.set("the first")
    desk.retrier.submit("key", first)
    await world.run(6)
    who.set("the second")
    desk.retrier.submit("key", second)
    await world.run(1000)
    assert seen == ["the first", "the second"]


# How many.


@pytest.mark.asyncio
async def test_when_full_only_a_new_key_is_refused() -> None:
    world = SteppedWorld()
    desk = Desk(world, max_pending=2)
    old, new, other = Call(desk.timer, 0), Call(desk.timer, 0), Call(desk.timer, 0)
    desk.retrier.submit("a", old.attempt)
    desk.retrier.submit("b", other.attempt)
    with pytest.raises(PurgatoryFull, match="max_pending is 2"):
        desk.retrier.submit("c", other.attempt)
    assert (desk.retrier.pending, desk.timer.pending) == (2, 2)
    desk.retrier.submit("a", new.attempt)
    assert (desk.retrier.pending, desk.timer.pending) == (2, 2)
    await world.run(1000)
    assert (old.begun, new.begun, other.begun) == ([], [5], [5])


@pytest.mark.parametrize("end", ["success", "giving up", "cancel"])
@pytest.mark.asyncio
async def test_what_has_ended_makes_room(end: str) -> None:
    world = SteppedWorld()
    desk = Desk(world, max_pending=1, attempts=1)
    desk.call(0 if end == "success" else None)
    if end == "cancel":
        desk.retrier.cancel("key")
    else:
        await world.run(5)
    desk.retrier.submit("other", Call(desk.timer).attempt)
    assert desk.retrier.pending == 1
    desk.retrier.cancel("other")


@pytest.mark.asyncio
async def test_what_is_being_attempted_still_takes_its_place() -> None:
    world = SteppedWorld()
    desk = Desk(world, max_pending=1)
    desk.call(takes=100)
    await world.run(6)
    assert desk.retrier.pending == 1
    with pytest.raises(PurgatoryFull):
        desk.retrier.submit("other", Call(desk.timer).attempt)
    await desk.retrier.aclose()


@pytest.mark.asyncio
async def test_when_the_timer_is_full_the_former_intent_stands() -> None:
    world = SteppedWorld()
    timer = world.timer(max_pending=1)
    retrier = Retrier[str](timer)
    old, new = Call(timer, 0), Call(timer, 0)
    retrier.submit("key", old.attempt)
    with pytest.raises(PurgatoryFull):
        retrier.submit("key", new.attempt)
    await world.run(1000)
    assert (old.succeeded, new.begun) == (1, [])


def test_submitting_needs_a_loop_unless_the_clock_does_not() -> None:
    with pytest.raises(PurgatoryError, match="running event loop"):
        Retrier[str](Timer()).submit("key", Call(Timer()).attempt)


@pytest.mark.asyncio
async def test_when_it_is_closed_nothing_is_taken() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    await desk.retrier.aclose()
    with pytest.raises(PurgatoryClosed, match="'key'"):
        desk.call()
    assert (desk.retrier.pending, desk.timer.pending) == (0, 0)


@pytest.mark.asyncio
async def test_when_its_timer_is_closed_nothing_is_taken() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    desk.timer.close()
    with pytest.raises(PurgatoryClosed):
        desk.call()
    assert desk.retrier.pending == 0


# Cancelling.


@pytest.mark.asyncio
async def test_cancelled_before_an_attempt_it_is_dropped_at_once() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    call = desk.call()
    assert desk.retrier.cancel("key") is True
    assert (desk.retrier.pending, desk.timer.pending, desk.timer.next_deadline) == (0, 0, None)
    assert desk.retrier.cancel("key") is False
    await world.run(1000)
    assert (call.begun, desk.given_up) == ([], [])


@pytest.mark.asyncio
async def test_cancelling_an_intent_cancels_its_attempt_and_retries() -> None:
    world, reported = SteppedWorld(), reports()
    desk = Desk(world, attempts=1)
    call = desk.call(takes=10)
    await world.run(6)
    assert desk.retrier.cancel("key") is True
    assert desk.retrier.pending == 0
    await world.run(1000)
    assert (call.begun, call.cancelled, desk.given_up, reported) == ([5], 1, [], [])
    assert desk.timer.pending == 0


@pytest.mark.asyncio
async def test_an_attempt_that_cancels_itself_goes_on_without_retries() -> None:
    world, ended, answers = SteppedWorld(), [], []
    desk = Desk(world)

    async def attempt() -> None:
        answers.append(desk.retrier.cancel("key"))
        await asyncio.sleep(0)
        answers.append(desk.retrier.cancel("key"))
        ended.append(desk.timer.time())
        raise OSError("broken")

    desk.retrier.submit("key", attempt)
    await world.run(1000)
    assert (ended, answers, desk.given_up) == ([5], [True, False], [])


@pytest.mark.asyncio
async def test_resubmitted_after_cancel_it_waits_for_the_old_attempt() -> None:
    world, line = SteppedWorld(), []
    desk = Desk(world)

    async def slow_to_end() -> None:
        line.append("busy")
        try:
            await desk.timer.sleep(100)
        finally:
            await desk.timer.sleep(20)
            line.pop()

    desk.retrier.submit("key", slow_to_end)
    await world.run(6)
    desk.retrier.cancel("key")
    call = desk.call(0, line=line)
    await world.run(1000)
    assert (call.begun, call.succeeded) == ([26], 1)


@pytest.mark.asyncio
async def test_cancelling_an_unknown_intent_returns_false() -> None:
    desk = Desk(SteppedWorld())
    assert desk.retrier.cancel("key") is False


# What it keeps.


@pytest.mark.parametrize("end", ["success", "giving up", "cancel", "replaced", "aclose"])
@pytest.mark.asyncio
async def test_what_has_ended_is_freed_at_once(end: str) -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=1, on_give_up=lambda *_: None)
    desk.call(0)
    await world.run(5)  # what is made once

    async def submit() -> "weakref.ref[Call]":
        # What an eager task raises in its first step, asyncio keeps in a cycle of its own; so it takes a while.
        call = desk.call(0 if end == "success" else None, takes=1)
        if end == "cancel":
            desk.retrier.cancel("key")
        elif end == "replaced":
            desk.call(0)
        elif end == "aclose":
            await desk.retrier.aclose()
        await world.run(6)
        call.errors.clear()  # tracebacks lead back to it
        return weakref.ref(call)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(submit())
        await settle()
        assert freed() is None


class WatchedError(Exception):
    """One whose end can be seen."""


@pytest.mark.asyncio
async def test_a_failure_is_not_kept_until_the_next_attempt() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    freed: list[weakref.ref[object]] = []

    async def attempt() -> None:
        await asyncio.sleep(0)
        error = WatchedError("broken")
        freed.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    desk.retrier.submit("key", attempt)
    with by_reference_counts_alone():
        await world.run(6)
        assert freed[0]() is None
    desk.retrier.cancel("key")

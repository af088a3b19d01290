"""The latest intent for a key counts: replacing, cancelling and closing it, how many there may be, what is kept."""

import asyncio
import contextvars
import weakref

import pytest

from purgatory_async import PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.patterns import Retrier
from purgatory_async.testing import ManualClock, settle
from tests.loop.worlds import SteppedWorld, by_reference_counts_alone, reports
from tests.patterns.work import Attempts, RetrierOnClock

pytestmark = pytest.mark.asyncio


who = contextvars.ContextVar("who", default="unset")


# Replacing.


async def test_a_newer_intent_replaces_a_waiting_one_and_its_delay(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    register = on_clock.submit()
    await world.run(4)
    unregister = on_clock.submit(0)
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (1, 1)
    await world.run(1000)
    assert (register.begun, unregister.begun, on_clock.given_up) == ([], [9], [])


async def test_a_newer_intent_has_all_its_attempts_and_its_first_delay(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, delay=1, backoff=3)
    register = on_clock.submit()
    await world.run(6)
    assert register.begun == [1, 4]
    unregister = on_clock.submit()
    await world.run(1000)
    assert (register.begun, unregister.begun) == ([1, 4], [7, 10, 19])
    assert on_clock.given_up == [("key", unregister.errors[-1])]


@pytest.mark.parametrize("failures", [None, 0], ids=["it fails", "it succeeds"])
async def test_an_intent_replaced_during_its_attempt_is_not_retried(
    failures: int | None, world: SteppedWorld
) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world, attempts=1)
    register = on_clock.submit(failures, takes=2, line=(line := []))
    await world.run(6)
    unregister = on_clock.submit(0, takes=2, line=line)
    await world.run(1000)
    assert (register.begun, register.ended, register.cancelled) == ([5], [7], 0)
    assert (unregister.begun, unregister.succeeded) == ([11], 1)
    assert (on_clock.given_up, reported, on_clock.retrier.pending) == ([], [], 0)


async def test_an_intent_due_during_an_attempt_starts_right_after_it(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    register = on_clock.submit(takes=20, line=(line := []))
    await world.run(6)
    unregister = on_clock.submit(1, takes=2, line=line)
    await world.run(1000)
    assert (register.begun, register.ended) == ([5], [25])
    # It was due at 11; the next attempt is due a delay after that, which has passed, so after the end.
    assert unregister.begun[0] == 25
    assert unregister.begun[1] >= unregister.ended[0] + 5 - 1e-9
    assert unregister.succeeded == 1


async def test_of_several_due_during_an_attempt_only_the_last_runs(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    first = on_clock.submit(takes=30, line=(line := []))
    await world.run(6)
    second = on_clock.submit(0, line=line)
    await world.run(6)
    third = on_clock.submit(0, line=line)
    await world.run(14)
    fourth = on_clock.submit(0, line=line)
    await world.run(1000)
    assert (first.begun, second.begun, third.begun, fourth.begun) == ([5], [], [], [35])
    assert on_clock.retrier.pending == 0


async def test_an_intent_submitted_inside_an_attempt_takes_its_place(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    second = Attempts(on_clock.timer, 0)

    async def attempt() -> None:
        on_clock.retrier.submit("key", second.attempt)
        await asyncio.sleep(0)
        raise OSError("broken")

    on_clock.retrier.submit("key", attempt)
    await world.run(1000)
    assert (second.begun, on_clock.given_up, on_clock.retrier.pending) == ([10], [], 0)


async def test_an_attempt_that_moves_the_clock_is_not_overlapped() -> None:
    clock = ManualClock()
    retrier = Retrier[str](timer := Timer(clock=clock))
    line: list[str] = []
    second = Attempts(timer, 0, line=line)

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


async def test_an_intent_delayed_by_an_attempt_keeps_its_context(world: SteppedWorld) -> None:
    seen = []
    on_clock = RetrierOnClock(world)

    async def first() -> None:
        await on_clock.timer.sleep(30)
        seen.append(who.get())

    async def second() -> None:
        seen.append(who.get())

    who.set("the first")
    on_clock.retrier.submit("key", first)
    await world.run(6)
    who.set("the second")
    on_clock.retrier.submit("key", second)
    await world.run(1000)
    assert seen == ["the first", "the second"]


# How many.


async def test_when_full_only_a_new_key_is_refused(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, max_pending=2)
    old, new, other = Attempts(on_clock.timer, 0), Attempts(on_clock.timer, 0), Attempts(on_clock.timer, 0)
    on_clock.retrier.submit("a", old.attempt)
    on_clock.retrier.submit("b", other.attempt)
    with pytest.raises(PurgatoryFull, match="max_pending is 2"):
        on_clock.retrier.submit("c", other.attempt)
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (2, 2)
    on_clock.retrier.submit("a", new.attempt)
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (2, 2)
    await world.run(1000)
    assert (old.begun, new.begun, other.begun) == ([], [5], [5])


@pytest.mark.parametrize("end", ["success", "giving up", "cancel"])
async def test_what_has_ended_makes_room(end: str, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, max_pending=1, attempts=1)
    on_clock.submit(0 if end == "success" else None)
    if end == "cancel":
        on_clock.retrier.cancel("key")
    else:
        await world.run(5)
    on_clock.retrier.submit("other", Attempts(on_clock.timer).attempt)
    assert on_clock.retrier.pending == 1
    on_clock.retrier.cancel("other")


async def test_what_is_being_attempted_still_takes_its_place(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, max_pending=1)
    on_clock.submit(takes=100)
    await world.run(6)
    assert on_clock.retrier.pending == 1
    with pytest.raises(PurgatoryFull):
        on_clock.retrier.submit("other", Attempts(on_clock.timer).attempt)
    await on_clock.retrier.aclose()


async def test_when_the_timer_is_full_the_former_intent_stands(world: SteppedWorld) -> None:
    timer = world.timer(max_pending=1)
    retrier = Retrier[str](timer)
    old, new = Attempts(timer, 0), Attempts(timer, 0)
    retrier.submit("key", old.attempt)
    with pytest.raises(PurgatoryFull):
        retrier.submit("key", new.attempt)
    await world.run(1000)
    assert (old.succeeded, new.begun) == (1, [])


async def test_when_its_timer_is_closed_nothing_is_taken(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    on_clock.timer.close()
    with pytest.raises(PurgatoryClosed):
        on_clock.submit()
    assert on_clock.retrier.pending == 0


# Cancelling.


async def test_cancelled_before_an_attempt_it_is_dropped_at_once(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    call = on_clock.submit()
    assert on_clock.retrier.cancel("key") is True
    assert (on_clock.retrier.pending, on_clock.timer.pending, on_clock.timer.next_deadline) == (0, 0, None)
    assert on_clock.retrier.cancel("key") is False
    await world.run(1000)
    assert (call.begun, on_clock.given_up) == ([], [])


async def test_cancelling_an_intent_cancels_its_attempt_and_retries(world: SteppedWorld) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world, attempts=1)
    call = on_clock.submit(takes=10)
    await world.run(6)
    assert on_clock.retrier.cancel("key") is True
    assert on_clock.retrier.pending == 0
    await world.run(1000)
    assert (call.begun, call.cancelled, on_clock.given_up, reported) == ([5], 1, [], [])
    assert on_clock.timer.pending == 0


async def test_an_attempt_that_cancels_itself_goes_on_without_retries(world: SteppedWorld) -> None:
    ended, answers = [], []
    on_clock = RetrierOnClock(world)

    async def attempt() -> None:
        answers.append(on_clock.retrier.cancel("key"))
        await asyncio.sleep(0)
        answers.append(on_clock.retrier.cancel("key"))
        ended.append(on_clock.timer.time())
        raise OSError("broken")

    on_clock.retrier.submit("key", attempt)
    await world.run(1000)
    assert (ended, answers, on_clock.given_up) == ([5], [True, False], [])


async def test_resubmitted_after_cancel_it_waits_for_the_old_attempt(world: SteppedWorld) -> None:
    line = []
    on_clock = RetrierOnClock(world)

    async def slow_to_end() -> None:
        line.append("busy")
        try:
            await on_clock.timer.sleep(100)
        finally:
            await on_clock.timer.sleep(20)
            line.pop()

    on_clock.retrier.submit("key", slow_to_end)
    await world.run(6)
    on_clock.retrier.cancel("key")
    call = on_clock.submit(0, line=line)
    await world.run(1000)
    assert (call.begun, call.succeeded) == ([26], 1)


async def test_cancel_also_stops_a_superseded_attempt(world: SteppedWorld) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world)
    former = on_clock.submit(takes=10)
    on_clock.retrier.submit("other", (other := Attempts(on_clock.timer, 0, takes=10)).attempt)
    await world.run(6)
    newer = on_clock.submit()
    assert on_clock.retrier.cancel("key") is True
    await world.run(1000)
    assert (former.ended, former.cancelled, newer.begun) == ([6], 1, [])
    assert (other.succeeded, on_clock.given_up, reported, on_clock.timer.pending) == (1, [], [], 0)


async def test_cancel_spares_a_superseded_attempt_that_calls_it(world: SteppedWorld) -> None:
    ended = []
    on_clock = RetrierOnClock(world)

    async def attempt() -> None:
        newer = on_clock.submit()
        assert on_clock.retrier.cancel("key") is True
        await asyncio.sleep(0)
        ended.append(newer.begun)

    on_clock.retrier.submit("key", attempt)
    await world.run(1000)
    assert ended == [[]]


async def test_a_second_cancel_leaves_an_attempt_to_clean_up(world: SteppedWorld) -> None:
    cleaned = []
    on_clock = RetrierOnClock(world)

    async def attempt() -> None:
        try:
            await on_clock.timer.sleep(100)
        finally:
            await on_clock.timer.sleep(20)
            cleaned.append(on_clock.timer.time())

    on_clock.retrier.submit("key", attempt)
    await world.run(6)
    assert on_clock.retrier.cancel("key") is True
    newer = on_clock.submit()
    await world.run(1)
    assert on_clock.retrier.cancel("key") is True
    await world.run(1000)
    assert (cleaned, newer.begun) == ([26], [])


# Closing.


async def test_closing_returns_what_waits_and_leaves_nothing(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    calls = {key: Attempts(on_clock.timer) for key in "abc"}
    for key, call in calls.items():
        on_clock.retrier.submit(key, call.attempt)
    undone = await on_clock.retrier.aclose()
    assert undone == {key: call.attempt for key, call in calls.items()}
    assert (on_clock.retrier.pending, on_clock.timer.pending, on_clock.timer.next_deadline) == (0, 0, None)
    await world.run(1000)
    assert [call.begun for call in calls.values()] == [[], [], []]
    assert on_clock.given_up == []


@pytest.mark.parametrize("attempts", [1, 3])
async def test_closing_cancels_an_attempt_and_returns_its_intent(attempts: int, world: SteppedWorld) -> None:
    reported, ended = reports(), []
    on_clock = RetrierOnClock(world, attempts=attempts)

    async def attempt() -> None:
        try:
            await on_clock.timer.sleep(100)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append(on_clock.timer.time())

    on_clock.retrier.submit("key", attempt)
    waiting = Attempts(on_clock.timer)
    await world.run(4)
    on_clock.retrier.submit("other", waiting.attempt)
    await world.run(2)
    assert await on_clock.retrier.aclose() == {"key": attempt, "other": waiting.attempt}
    assert (ended, on_clock.given_up, reported, on_clock.timer.pending) == ([6], [], [], 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("attempts", [1, 3])
async def test_an_attempt_failing_from_close_is_returned_not_given_up(
    attempts: int, world: SteppedWorld
) -> None:
    on_clock = RetrierOnClock(world, attempts=attempts)

    async def attempt() -> None:
        try:
            await on_clock.timer.sleep(100)
        except asyncio.CancelledError:
            raise ConnectionError("closed") from None

    on_clock.retrier.submit("key", attempt)
    await world.run(6)
    assert await on_clock.retrier.aclose() == {"key": attempt}
    assert (on_clock.given_up, on_clock.timer.pending) == ([], 0)


async def test_the_newer_intent_of_a_resubmitted_key_is_returned(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    former = on_clock.submit(takes=100)
    await world.run(6)
    waiting = on_clock.submit()
    await world.run(6)  # it has fallen due
    assert await on_clock.retrier.aclose() == {"key": waiting.attempt}
    await world.run(1000)
    assert (former.cancelled, waiting.begun) == (1, [])


async def test_closed_inside_an_attempt_it_goes_on_and_is_returned(world: SteppedWorld) -> None:
    undone, ended = {}, []
    on_clock = RetrierOnClock(world)
    other = Attempts(on_clock.timer, takes=100)

    async def attempt() -> None:
        undone.update(await on_clock.retrier.aclose())
        await asyncio.sleep(0)
        ended.append(on_clock.timer.time())
        raise OSError("broken")

    on_clock.retrier.submit("other", other.attempt)
    on_clock.retrier.submit("key", attempt)
    await world.run(1000)
    assert undone == {"key": attempt, "other": other.attempt}
    assert (ended, on_clock.given_up, on_clock.timer.pending, on_clock.retrier.pending) == ([5], [], 0, 0)
    assert other.cancelled == len(other.begun)


async def test_it_stops_with_its_timer_and_aclose_returns_the_rest(world: SteppedWorld) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world)
    waiting, release = on_clock.submit(), asyncio.Event()

    async def attempt() -> None:
        await release.wait()
        raise OSError("broken")

    on_clock.retrier.submit("other", attempt)
    await world.run(6)
    assert len(waiting.begun) == 1
    on_clock.timer.close()
    release.set()
    await world.run(1000)
    assert (len(waiting.begun), on_clock.given_up, reported) == (1, [], [])
    assert on_clock.retrier.pending == 2
    assert await on_clock.retrier.aclose() == {"key": waiting.attempt, "other": attempt}


async def test_an_attempt_that_closes_the_timer_can_still_succeed(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)

    async def attempt() -> None:
        on_clock.timer.close()

    on_clock.retrier.submit("key", attempt)
    await world.run(5)
    assert (on_clock.retrier.pending, await on_clock.retrier.aclose()) == (0, {})


# What it keeps.


@pytest.mark.parametrize("end", ["success", "giving up", "cancel", "replaced", "aclose"])
async def test_what_has_ended_is_freed_at_once(end: str, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=1, on_give_up=lambda *_: None)
    on_clock.submit(0)
    await world.run(5)  # what is made once

    async def submit() -> "weakref.ref[Attempts]":
        # What an eager task raises in its first step, asyncio keeps in a cycle of its own; so it takes a while.
        call = on_clock.submit(0 if end == "success" else None, takes=1)
        if end == "cancel":
            on_clock.retrier.cancel("key")
        elif end == "replaced":
            on_clock.submit(0)
        elif end == "aclose":
            await on_clock.retrier.aclose()
        await world.run(6)
        call.errors.clear()  # tracebacks lead back to it
        return weakref.ref(call)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(submit())
        await settle()
        assert freed() is None


# What it sees and shows.


async def test_its_repr_tells_the_delay_and_how_much_there_is_to_do(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    on_clock.submit(takes=2)
    assert repr(on_clock.retrier) == "<Retrier every 5.0 s pending=1 running=0>"
    await world.run(6)
    assert repr(on_clock.retrier) == "<Retrier every 5.0 s pending=1 running=1>"
    await on_clock.retrier.aclose()
    assert repr(on_clock.retrier) == "<Retrier every 5.0 s pending=0 running=0>"

"""`Retrier.run`: the result or the last exception, in time, for the latest of each key."""

import asyncio
import contextvars
import weakref
from typing import Any

import pytest

from purgatory_async import (
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
)
from purgatory_async.patterns import HandOff, Retrier
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld, by_reference_counts_alone, reports
from tests.patterns.waiters import Waiter, each_way, waiting
from tests.patterns.work import Attempts, Caller, PlannedError, RetrierOnClock, pass_time

pytestmark = pytest.mark.asyncio

who = contextvars.ContextVar("who", default="unset")


async def never() -> None:
    await asyncio.get_running_loop().create_future()


# When, and what comes out.


@pytest.mark.parametrize(
    ("settings", "begun"),
    [
        ({}, [0, 5, 10]),
        ({"first_delay": 1}, [1, 6, 11]),
        ({"delay": 1, "backoff": 3, "attempts": 4, "max_delay": 8}, [0, 1, 4, 12]),
        ({"attempts": 1}, [0]),
        ({"attempts": None, "total": 12}, [0, 5, 10]),
        ({"attempts": None, "total": 10}, [0, 5, 10]),
        ({"attempts": None, "total": 9.999}, [0, 5]),
        ({"total": 0}, [0]),
    ],
)
async def test_attempts_come_at_once_then_after_each_delay(settings, begun, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, **settings)
    caller = Caller(on_clock)
    await world.run(1000)
    assert caller.attempts.begun == begun
    assert caller.got is caller.attempts.errors[-1]
    assert on_clock.given_up == [("key", caller.got)]
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (0, 0)


async def test_the_result_comes_out_of_the_attempt_that_succeeds(world: SteppedWorld) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world)
    caller = Caller(on_clock, 2, takes=2)
    await world.run(1000)
    assert (caller.attempts.begun, caller.got, on_clock.given_up) == ([0, 7, 14], "result", [])
    assert (on_clock.retrier.pending, on_clock.timer.pending, reported) == (0, 0, [])


async def test_an_attempt_that_succeeds_at_once_does_not_suspend(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)

    async def attempt() -> int:
        return 42

    run = on_clock.retrier.run("key", attempt)
    with pytest.raises(StopIteration) as stop:
        run.send(None)
    assert stop.value.value == 42


async def test_an_attempt_sees_the_context_of_its_caller(world: SteppedWorld) -> None:
    on_clock, seen = RetrierOnClock(world), []

    async def attempt() -> None:
        seen.append((who.get(), asyncio.current_task()))
        if len(seen) == 1:
            raise OSError("try again")

    who.set("the caller")
    waiter = Waiter(on_clock.retrier.run("key", attempt))
    who.set("another")
    await world.run(10)
    assert seen == [("the caller", waiter.task)] * 2


@pytest.mark.parametrize(
    ("retry_on", "attempts"),
    [
        ((OSError,), 1),
        (OSError, 1),
        ((), 1),
        ((OSError, PlannedError), 3),
        (lambda error: isinstance(error, PlannedError), 3),
        (lambda error: str(error) == "failure 1", 2),
    ],
)
async def test_only_the_exceptions_that_were_said_are_repeated(
    retry_on, attempts, world: SteppedWorld
) -> None:
    on_clock = RetrierOnClock(world, retry_on=retry_on)
    caller = Caller(on_clock)
    await world.run(1000)
    assert len(caller.attempts.begun) == attempts
    assert caller.got is caller.attempts.errors[-1]


async def test_what_is_submitted_is_repeated_whatever_it_raises(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, retry_on=(), first_delay=3)
    submitted = on_clock.submit()
    await world.run(1000)
    assert submitted.begun == [5, 10, 15]


@pytest.mark.parametrize("wrong", [5, "OSError", [OSError], (OSError, 5), (int,), OSError("an instance")])
async def test_what_tells_no_exceptions_is_refused(wrong, world: SteppedWorld) -> None:
    with pytest.raises(TypeError, match="retry_on must be exception classes or a plain function, got"):
        Retrier(world.timer(), retry_on=wrong)


async def test_an_async_predicate_is_refused(world: SteppedWorld) -> None:
    async def predicate(_error: BaseException) -> bool:
        return True

    with pytest.raises(TypeError, match="retry_on must be a plain function"):
        Retrier(world.timer(), retry_on=predicate)

    def plain(error: BaseException) -> object:
        return predicate(error)

    caller = Caller(RetrierOnClock(world, retry_on=plain))
    await settle()
    assert "retry_on must be a plain function" in str(caller.got)


async def test_total_bounds_what_is_submitted_too(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=None, total=12)
    submitted = on_clock.submit()
    await world.run(1000)
    assert submitted.begun == [5, 10]
    assert on_clock.given_up == [("key", submitted.errors[-1])]


async def test_no_attempt_begins_late_where_the_loop_was_blocked(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=None, total=12)
    caller, submitted = Caller(on_clock), Attempts(on_clock.timer)
    on_clock.retrier.submit("other", submitted.attempt)
    await settle()
    world.clock.move(13)
    await world.run(100)
    assert (caller.attempts.begun, caller.got, submitted.begun) == ([0], caller.attempts.errors[0], [])
    assert {key: type(failure) for key, failure in on_clock.given_up} == {
        "key": PlannedError,
        "other": OperationExpired,
    }


async def test_an_attempt_that_outlasts_the_total_is_the_last(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=None, total=2)
    caller = Caller(on_clock, takes=5)
    await world.run(1000)
    assert (caller.attempts.begun, caller.attempts.ended, caller.got) == ([0], [5], caller.attempts.errors[0])


# Replaced, cancelled, closed.


@pytest.mark.parametrize("end", ["run", "submit", "cancel"])
async def test_another_for_its_key_ends_a_run_between_attempts(end, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    caller = Caller(on_clock)
    await world.run(1)
    other = None
    if end == "run":
        other = Caller(on_clock, 0)
    elif end == "submit":
        on_clock.submit(0)
    else:
        assert on_clock.retrier.cancel("key") is True
    await settle()
    assert (type(caller.got), caller.got.keys, on_clock.timer.pending) == (
        OperationCancelled,
        ("key",),
        end == "submit",
    )
    await world.run(1000)
    assert (caller.attempts.begun, on_clock.given_up) == ([0], [])
    assert other is None or other.got == "result"


@pytest.mark.parametrize("failures", [None, 0], ids=["it fails", "it succeeds"])
async def test_a_replaced_run_ends_once_its_attempt_has(failures, world: SteppedWorld) -> None:
    on_clock, line = RetrierOnClock(world), []
    caller = Caller(on_clock, failures, takes=3, line=line)
    await world.run(1)
    other = Caller(on_clock, 0, takes=1, line=line)
    await world.run(1)
    assert (caller.got, on_clock.retrier.pending) == (None, 1)
    await world.run(1000)
    assert (type(caller.got), caller.attempts.ended) == (OperationCancelled, [3])
    assert (other.got, other.attempts.begun, on_clock.given_up) == ("result", [3], [])


async def test_of_several_that_wait_for_an_attempt_only_the_last_runs(world: SteppedWorld) -> None:
    on_clock, line = RetrierOnClock(world), []
    submitted = on_clock.submit(takes=10, line=line)
    await world.run(6)
    several = [Caller(on_clock, 0, line=line) for _ in range(3)]
    await world.run(1000)
    assert [type(caller.got) for caller in several] == [OperationCancelled, OperationCancelled, str]
    assert (submitted.begun, several[2].attempts.begun) == ([5], [15])


async def test_what_is_submitted_waits_for_the_attempt_of_a_run(world: SteppedWorld) -> None:
    on_clock, line = RetrierOnClock(world), []
    caller = Caller(on_clock, takes=30, line=line)
    await settle()
    submitted = on_clock.submit(0, line=line)
    await world.run(1000)
    assert (type(caller.got), submitted.begun) == (OperationCancelled, [30])


async def test_a_run_that_waits_too_long_for_its_turn_expires(world: SteppedWorld) -> None:
    on_clock, line = RetrierOnClock(world, total=8), []
    on_clock.submit(takes=100, line=line)
    await world.run(6)
    caller = Caller(on_clock, line=line)
    await world.run(8)
    assert (type(caller.got), caller.got.keys, caller.got.timeout) == (OperationExpired, ("key",), 8)
    assert (caller.attempts.begun, on_clock.given_up) == ([], [("key", caller.got)])
    assert on_clock.timer.pending == 1
    await on_clock.retrier.aclose()


@pytest.mark.parametrize("when", ["between attempts", "in an attempt", "waiting for its turn"])
@each_way
async def test_a_cancelled_caller_leaves_nothing(when, way, world: SteppedWorld) -> None:
    on_clock, line = RetrierOnClock(world), []
    if when == "waiting for its turn":
        on_clock.submit(0, takes=3, line=line)
        await world.run(6)
    attempts = Attempts(on_clock.timer, takes=3 if when == "in an attempt" else 0, line=line)
    [waiter] = await waiting(on_clock.retrier.run("key", attempts.attempt), way=way)
    await world.run(1)
    waiter.cancel()
    await settle()
    assert (waiter.got, on_clock.given_up, on_clock.retrier.pending) == ("cancelled", [], 0)
    assert attempts.cancelled == (when == "in an attempt")
    await world.run(1000)
    assert (len(attempts.begun), on_clock.timer.pending) == (when != "waiting for its turn", 0)


async def test_the_result_of_an_attempt_is_not_lost_in_a_cancellation(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    jobs = HandOff[str, int](purgatory := Purgatory(timer=on_clock.timer))
    waiter = Waiter(on_clock.retrier.run("key", lambda: jobs.take("jobs")))
    await settle()
    jobs.put("jobs", 1)
    waiter.cancel()
    await settle()
    assert (waiter.got, jobs.clear()) == ("cancelled", [("jobs", 1)])
    purgatory.close()


async def test_cancelling_its_key_cancels_the_attempt_alone(world: SteppedWorld) -> None:
    on_clock, ends = RetrierOnClock(world), []
    cleaned = asyncio.Event()

    async def attempt() -> None:
        try:
            await never()
        finally:
            await cleaned.wait()

    async def caller() -> None:
        try:
            await on_clock.retrier.run("key", attempt)
        except OperationCancelled as ended:
            ends.append((type(ended), asyncio.current_task().cancelling()))
            await asyncio.sleep(0)  # and no cancellation is left
            ends.append("goes on")

    task = asyncio.create_task(caller())
    await settle()
    assert on_clock.retrier.cancel("key") is True
    await settle()
    assert not ends
    cleaned.set()
    await task
    assert ends == [(OperationCancelled, 0), "goes on"]
    assert on_clock.given_up == []


async def test_a_caller_cancelled_beside_its_key_is_cancelled(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    waiter = Waiter(on_clock.retrier.run("key", never))
    await settle()
    on_clock.retrier.cancel("key")
    waiter.cancel()
    await settle()
    assert (waiter.got, waiter.task.cancelled(), on_clock.given_up) == ("cancelled", False, [])


async def test_a_cancellation_from_inside_spares_the_caller(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, retry_on=(Exception, asyncio.CancelledError), attempts=2)
    dropped, begun = asyncio.get_running_loop().create_future(), []
    dropped.cancel()

    async def attempt() -> None:
        begun.append(on_clock.timer.time())
        await dropped

    waiter = Waiter(on_clock.retrier.run("key", attempt))
    await world.run(1000)
    assert (begun, type(waiter.got)) == ([0, 5], OperationCancelled)
    assert isinstance(waiter.got.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("when", ["between attempts", "in an attempt", "waiting for its turn"])
async def test_closing_ends_a_run_and_returns_only_what_was_submitted(when, world: SteppedWorld) -> None:
    on_clock, line = RetrierOnClock(world), []
    if when == "waiting for its turn":
        on_clock.submit(takes=100, line=line)
        await world.run(6)
    caller = Caller(on_clock, takes=100 if when == "in an attempt" else 0, line=line)
    await settle()
    assert await on_clock.retrier.aclose() == {}
    await settle()
    assert (type(caller.got), caller.got.keys) == (PurgatoryClosed, ("key",))
    assert (on_clock.given_up, on_clock.timer.pending, on_clock.retrier.pending) == ([], 0, 0)
    assert caller.attempts.cancelled == (when == "in an attempt")
    with pytest.raises(PurgatoryClosed, match="cannot run"):
        await on_clock.retrier.run("key", never)


async def test_closing_waits_for_the_attempt_of_a_run(world: SteppedWorld) -> None:
    on_clock, cleaned = RetrierOnClock(world), asyncio.Event()

    async def attempt() -> str:
        try:
            await never()
        finally:
            await cleaned.wait()
        return ""

    waiter = Waiter(on_clock.retrier.run("key", attempt))
    await settle()
    closing = asyncio.create_task(on_clock.retrier.aclose())
    await settle()
    assert not closing.done()
    cleaned.set()
    assert await closing == {}
    await settle()
    assert type(waiter.got) is PurgatoryClosed


async def test_a_run_closed_in_its_attempt_keeps_its_result(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)

    async def attempt() -> dict[str, Any]:
        undone: dict[str, Any] = await on_clock.retrier.aclose()
        return undone

    assert await on_clock.retrier.run("key", attempt) == {}


@pytest.mark.parametrize("when", ["before", "between attempts"])
async def test_a_closed_timer_ends_a_run(when, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    if when == "before":
        on_clock.timer.close()
    caller = Caller(on_clock)
    await settle()
    on_clock.timer.close()
    await settle()
    assert (type(caller.got), len(caller.attempts.begun)) == (PurgatoryClosed, when != "before")
    assert (on_clock.given_up, on_clock.retrier.pending) == ([], 0)


async def test_a_full_timer_changes_nothing_before_the_first_attempt(world: SteppedWorld) -> None:
    timer = world.timer(max_pending=1)
    retrier = Retrier[str](timer, first_delay=1)
    submitted = Attempts(timer, 0)
    retrier.submit("key", submitted.attempt)
    with pytest.raises(PurgatoryFull):
        await retrier.run("key", never)
    await world.run(5)
    assert (submitted.succeeded, retrier.pending) == (1, 0)


async def test_a_run_counts_among_the_keys(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, max_pending=1)
    caller = Caller(on_clock, 1)
    await settle()
    assert repr(on_clock.retrier) == "<Retrier every 5.0 s pending=1 running=0>"
    with pytest.raises(PurgatoryFull):
        await on_clock.retrier.run("other", never)
    await world.run(5)
    assert caller.got == "result"


async def test_an_attempt_that_runs_its_own_key_is_refused(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=1)

    async def attempt() -> None:
        await on_clock.retrier.run("key", never)

    with pytest.raises(PurgatoryError, match="inside one of the same key"):
        await on_clock.retrier.run("key", attempt)
    on_clock.retrier.submit("key", attempt)
    await world.run(10)
    assert [type(failure) for _, failure in on_clock.given_up] == [PurgatoryError, PurgatoryError]


async def test_an_attempt_that_moves_the_clock_past_the_total(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, total=3)

    async def attempt() -> None:
        pass_time(world.clock, 4)
        raise PlannedError("late")

    waiter = Waiter(on_clock.retrier.run("key", attempt))
    await world.run(100)
    assert isinstance(waiter.got, PlannedError)


# What it keeps.


@pytest.mark.parametrize("end", ["result", "exception", "replaced", "cancelled", "closed"])
async def test_a_run_that_has_ended_is_freed_at_once(end, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=2, on_give_up=lambda *_: None)

    async def run() -> "weakref.ref[Any]":
        caller = Caller(on_clock, 1 if end == "result" else None)
        await settle()
        if end == "replaced":
            Caller(on_clock, 0)
        elif end == "cancelled":
            caller.waiter.cancel()
        elif end == "closed":
            await on_clock.retrier.aclose()
        await world.run(6)
        assert caller.got is not None
        caller.attempts.errors.clear()
        caller.waiter.got = None
        return weakref.ref(caller.attempts)

    with by_reference_counts_alone():
        freed = await asyncio.create_task(run())
        await settle()
        assert freed() is None

"""What `Retrier` tells `on_failure`, of `run` and of `submit`, and what becomes of what that raises."""

import asyncio

import pytest

from purgatory_async import OperationCancelled
from tests.loop.worlds import SteppedWorld, reports
from tests.patterns.work import Attempts, Caller, RetrierOnClock

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("verb", ["run", "submit"])
async def test_on_failure_learns_of_each_failure(kind, verb, world: SteppedWorld) -> None:
    told: list[tuple[object, str, int]] = []

    async def later(key: object, failure: BaseException, number: int) -> None:
        await asyncio.sleep(0)
        note(key, failure, number)

    def note(key: object, failure: BaseException, number: int) -> None:
        told.append((key, str(failure), number))

    on_clock = RetrierOnClock(world, on_failure=note if kind == "plain" else later)
    if verb == "run":
        Caller(on_clock)
    else:
        on_clock.submit()
    await world.run(1000)
    assert told == [("key", f"failure {number}", number) for number in (1, 2, 3)]


@pytest.mark.parametrize("verb", ["run", "submit"])
async def test_an_async_on_failure_ends_before_the_next_attempt(verb, world: SteppedWorld) -> None:
    async def sign_in(_key: object, _failure: BaseException, _number: int) -> None:
        await on_clock.timer.sleep(20)

    on_clock = RetrierOnClock(world, on_failure=sign_in)
    attempts = Caller(on_clock, 1).attempts if verb == "run" else on_clock.submit(1)
    await world.run(1000)
    assert (attempts.begun[1] - attempts.begun[0], attempts.succeeded) == (25, 1)


async def test_a_raising_on_failure_is_reported_and_attempts_go_on(world: SteppedWorld) -> None:
    reported = reports()

    def broken(_key: object, _failure: BaseException, _number: int) -> None:
        raise LookupError("no log")

    on_clock = RetrierOnClock(world, on_failure=broken)
    caller = Caller(on_clock, 2)
    await world.run(1000)
    assert caller.got == "result"
    assert [type(context["exception"]) for context in reported] == [LookupError] * 2


async def test_on_failure_learns_nothing_of_what_was_dropped(world: SteppedWorld) -> None:
    told: list[object] = []
    on_clock = RetrierOnClock(world, on_failure=lambda *failure: told.append(failure))
    caller = Caller(on_clock, takes=3)
    submitted = Attempts(on_clock.timer, takes=30)
    on_clock.retrier.submit("other", submitted.attempt)
    await world.run(1)
    on_clock.submit(0)
    await world.run(6)
    on_clock.retrier.cancel("other")
    await world.run(1000)
    assert (type(caller.got), told, submitted.cancelled) == (OperationCancelled, [], 1)


async def test_a_run_cancelled_in_on_failure_makes_no_attempt_more(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, on_failure=lambda key, *_: on_clock.retrier.cancel(key))
    caller = Caller(on_clock)
    await world.run(1000)
    assert (type(caller.got), caller.attempts.begun) == (OperationCancelled, [0])

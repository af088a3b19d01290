"""When `Retrier` attempts what was submitted, how often, and what becomes of what fails to the last."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from purgatory_async import PurgatoryFull
from purgatory_async.patterns import Retrier
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld, World, reports
from tests.patterns.work import Attempts, RetrierOnClock, each_kind, each_world

pytestmark = pytest.mark.asyncio


class PlannedBaseError(BaseException):
    """What is no `Exception`, and no interrupt."""


async def in_steps(world: World, seconds: float) -> None:
    """Let time pass so that tasks run at their own time on a manual clock, too."""
    for _ in range(round(seconds * 2)):
        await world.run(0.5)


# When.


@each_world
async def test_the_first_attempt_comes_a_delay_after_it_was_submitted(world_class: type[World]) -> None:
    world = world_class()
    on_clock = RetrierOnClock(world)
    await world.run(100)
    call = on_clock.submit(0)
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (1, 1)
    await world.run(4.999)
    assert call.begun == []
    await world.run(0.001)
    assert (call.begun, call.succeeded) == ([105], 1)
    assert (on_clock.retrier.pending, on_clock.timer.pending, on_clock.timer.next_deadline) == (0, 0, None)


@each_world
async def test_a_failure_is_retried_every_delay_until_success(world_class: type[World]) -> None:
    world = world_class()
    on_clock = RetrierOnClock(world, attempts=None)
    call = on_clock.submit(40)
    await in_steps(world, 300)
    assert call.begun == [5 * number for number in range(1, 42)]
    assert (call.succeeded, on_clock.given_up, on_clock.retrier.pending, on_clock.timer.pending) == (
        1,
        [],
        0,
        0,
    )


@pytest.mark.parametrize("submitted", [0, 0.3, 2.5, 4.999], ids=lambda at: f"submitted at {at} s")
@pytest.mark.parametrize("tick", [1, 2.5, 5], ids=lambda tick: f"tick {tick} s")
async def test_the_real_period_is_the_delay_however_coarse_the_tick(
    tick: float, submitted: float, world: SteppedWorld
) -> None:
    on_clock = RetrierOnClock(world, tick=tick, attempts=20)
    await world.run(submitted)
    call = on_clock.submit()
    await world.run(200)
    assert [later - earlier for earlier, later in pairwise(call.begun)] == [5] * 19
    assert 5 <= call.begun[0] - submitted < 5 + tick


@pytest.mark.parametrize("tick", [0.7, 2, 3, 4.9], ids=lambda tick: f"tick {tick} s")
async def test_each_attempt_is_less_than_a_tick_late(tick: float, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, tick=tick, attempts=100)
    call = on_clock.submit()
    await world.run(600)
    lateness = [begun - 5 * number for number, begun in enumerate(call.begun, 1)]
    assert len(lateness) == 100
    assert min(lateness) > -1e-9
    assert max(lateness) < tick


@pytest.mark.parametrize("tick", [5.5, 6, 30], ids=lambda tick: f"tick {tick} s")
async def test_attempts_keep_a_delay_shorter_than_a_tick(tick: float, world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, tick=tick, attempts=12)
    call = on_clock.submit()
    await world.run(1000)
    assert min(later - earlier for earlier, later in pairwise(call.begun)) >= 5
    assert max(later - earlier for earlier, later in pairwise(call.begun)) <= 2 * tick


async def test_after_a_block_attempts_do_not_come_in_a_burst(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    call = on_clock.submit()
    world.clock.move(60)
    await world.run(20)
    assert call.begun == [60, 65, 70]


async def test_unbounded_backoff_does_not_exceed_the_timer(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=None, backoff=1e9, jitter=1.0, random=lambda: 1.0)
    call = on_clock.submit(5)
    for _ in range(6):
        await world.run(3_155_760_000)
    assert (len(call.begun), call.succeeded, on_clock.given_up) == (6, 1, [])


async def test_with_the_default_random_jitter_stays_in_its_share(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, delay=10, attempts=200, jitter=0.1)
    call = on_clock.submit()
    await world.run(3000)
    gaps = [later - earlier for earlier, later in pairwise(call.begun)]
    assert len(gaps) == 199
    assert min(gaps) >= 9.998
    assert max(gaps) <= 11.002
    assert len(set(gaps)) > 100


RHYTHMS: dict[str, tuple[dict[str, Any], dict[str, Any], list[float]]] = {
    "one attempt": ({"attempts": 1}, {}, [5]),
    "three unless it is said": ({}, {}, [5, 10, 15]),
    "seven": ({"attempts": 7}, {}, [5, 10, 15, 20, 25, 30, 35]),
    "the time that one takes is added": ({"attempts": 4}, {"takes": 3}, [5, 13, 21, 29]),
    "longer after each failure, up to the longest": (
        {"delay": 1, "attempts": 8, "backoff": 2, "max_delay": 10},
        {},
        [1, 3, 7, 15, 25, 35, 45, 55],
    ),
    "longer by a random share of each delay": (
        {"delay": 10, "attempts": 4, "backoff": 2, "jitter": 0.4, "random": None},
        {},
        [10, 38, 86, 174],
    ),
}


@pytest.mark.parametrize(("settings", "attempt", "begun"), RHYTHMS.values(), ids=RHYTHMS)
async def test_attempts_keep_their_rhythm_until_the_last_is_given_up(
    settings: dict[str, Any], attempt: dict[str, Any], begun: list[float], world: SteppedWorld
) -> None:
    if "random" in settings:
        shares = iter([0.0, 1.0, 0.5, 0.25])
        settings = settings | {"random": lambda: next(shares)}
    on_clock = RetrierOnClock(world, **settings)
    attempts = on_clock.submit(**attempt)
    await world.run(1000)
    assert attempts.begun == begun
    assert on_clock.given_up == [("key", attempts.errors[-1])]
    assert len(attempts.errors) == len(begun)
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (0, 0)


# What fails.


@each_kind
@pytest.mark.parametrize("error", [OSError, PlannedBaseError, GeneratorExit])
async def test_an_exception_from_the_call_or_the_await_is_a_failure(
    kind: Callable[[BaseException], Any], error: type[BaseException], world: SteppedWorld
) -> None:
    reported, broken = reports(), error("broken")
    on_clock = RetrierOnClock(world)
    on_clock.retrier.submit("key", kind(broken))
    await world.run(1000)
    assert (on_clock.given_up, reported) == ([("key", broken)], [])


async def test_a_plain_function_fails_with_an_error_that_names_it(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)

    def a_plain_function() -> int:
        return 42

    on_clock.retrier.submit("key", a_plain_function)
    await world.run(1000)
    [(key, failure)] = on_clock.given_up
    assert (key, type(failure)) == ("key", TypeError)
    assert "a_plain_function" in str(failure)
    assert "42" in str(failure)


async def test_a_plain_function_returning_an_awaitable_is_an_attempt(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world)
    call = Attempts(on_clock.timer, failures=1)
    on_clock.retrier.submit("key", lambda: asyncio.ensure_future(call.attempt()))
    await world.run(1000)
    assert (call.begun, call.succeeded, on_clock.given_up) == ([5, 10], 1, [])


@pytest.mark.parametrize("begun", [True, False], ids=["under way", "before its first step"])
async def test_a_cancellation_from_outside_ends_the_intent(begun: bool, world: SteppedWorld) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world, attempts=2, on_give_up=None)
    before = asyncio.all_tasks()
    call = on_clock.submit(takes=2)
    await world.run(5)
    for _ in range(begun):
        await settle()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await world.run(1000)
    assert (call.begun, reported) == ([5] if begun else call.begun, [])
    assert (on_clock.retrier.pending, on_clock.timer.pending) == (0, 0)


async def test_a_cancellation_from_inside_is_a_failure(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=2)
    dropped = asyncio.get_running_loop().create_future()
    dropped.cancel()

    async def attempt() -> None:
        await dropped

    on_clock.retrier.submit("key", attempt)
    await world.run(1000)
    assert [(key, type(failure)) for key, failure in on_clock.given_up] == [("key", asyncio.CancelledError)]


# What is given up.


async def test_without_a_callback_giving_up_is_reported_with_its_key(world: SteppedWorld) -> None:
    reported = reports()
    on_clock = RetrierOnClock(world, on_give_up=None)
    call = on_clock.submit()
    await world.run(1000)
    assert [context["exception"] for context in reported] == [call.errors[-1]]
    assert "'key'" in reported[0]["message"]
    assert "gave up" in reported[0]["message"]


async def test_a_raising_callback_is_reported_and_other_keys_go_on(world: SteppedWorld) -> None:
    reported = reports()

    def log(key: object, failure: BaseException) -> None:
        raise LookupError(f"no log for {key}")

    on_clock = RetrierOnClock(world, on_give_up=log)
    first, second = on_clock.submit(), Attempts(on_clock.timer, 1)
    on_clock.retrier.submit("other", second.attempt)
    await world.run(1000)
    assert [type(context["exception"]) for context in reported] == [LookupError]
    assert (len(first.begun), second.succeeded, on_clock.retrier.pending) == (3, 1, 0)


async def test_a_callback_may_resubmit_its_key_even_when_full(world: SteppedWorld) -> None:
    on_clock = RetrierOnClock(world, attempts=1, max_pending=1)
    call = Attempts(on_clock.timer, 2)
    on_clock.retrier.on_give_up = lambda key, _: on_clock.retrier.submit(key, call.attempt)
    on_clock.retrier.submit("key", call.attempt)
    await world.run(1000)
    assert (call.begun, call.succeeded) == ([5, 10, 15], 1)


def numbers() -> Iterator[float]:
    yield 0.5
    raise LookupError("no more numbers")


async def test_it_gives_up_when_the_next_delay_is_invalid(world: SteppedWorld) -> None:
    reported = reports()
    shares = numbers()
    on_clock = RetrierOnClock(world, jitter=0.5, random=lambda: next(shares))
    on_clock.submit()
    await world.run(1000)
    assert [(key, type(failure)) for key, failure in on_clock.given_up] == [("key", LookupError)]
    assert (on_clock.retrier.pending, reported) == (0, [])


async def test_it_gives_up_when_the_timer_is_full(world: SteppedWorld) -> None:
    timer, given_up = world.timer(max_pending=1), []
    retrier = Retrier[str](timer, on_give_up=lambda *what: given_up.append(what))

    async def attempt() -> None:
        timer.call_later(1000, print)
        raise OSError("broken")

    retrier.submit("key", attempt)
    await world.run(10)
    assert [(key, type(failure)) for key, failure in given_up] == [("key", PurgatoryFull)]
    assert retrier.pending == 0
    timer.close()

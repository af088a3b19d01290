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
from tests.patterns.calls import Call
from tests.patterns.desk import Desk
from tests.patterns.diary import WORLD_NAMES, WORLDS, raising, raising_later

each_kind = pytest.mark.parametrize("kind", [raising, raising_later], ids=["plain", "async"])


class PlannedBaseError(BaseException):
    """What is no `Exception`, and no interrupt."""


async def in_steps(world: World, seconds: float) -> None:
    """Let time pass so that tasks run at their own time on a manual clock, too."""
    for _ in range(round(seconds * 2)):
        await world.run(0.5)


# When.


@pytest.mark.parametrize("world_class", WORLDS, ids=WORLD_NAMES)
@pytest.mark.asyncio
async def test_the_first_attempt_comes_a_delay_after_it_was_submitted(world_class: type[World]) -> None:
    world = world_class()
    desk = Desk(world)
    await world.run(100)
    call = desk.call(0)
    assert (desk.retrier.pending, desk.timer.pending) == (1, 1)
    await world.run(4.999)
    assert call.begun == []
    await world.run(0.001)
    assert (call.begun, call.succeeded) == ([105], 1)
    assert (desk.retrier.pending, desk.timer.pending, desk.timer.next_deadline) == (0, 0, None)


@pytest.mark.parametrize("world_class", WORLDS, ids=WORLD_NAMES)
@pytest.mark.asyncio
async def test_a_failure_is_retried_every_delay_until_success(
    world_class: type[World],
) -> None:
    world = world_class()
    desk = Desk(world, attempts=None)
    call = desk.call(40)
    await in_steps(world, 300)
    assert call.begun == [5 * number for number in range(1, 42)]
    assert (call.succeeded, desk.given_up, desk.retrier.pending, desk.timer.pending) == (1, [], 0, 0)


@pytest.mark.parametrize("attempts", [1, 2, 3, 7])
@pytest.mark.asyncio
async def test_after_the_last_attempt_it_gives_up_with_the_failure(attempts: int) -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=attempts)
    call = desk.call()
    await world.run(1000)
    assert call.begun == [5 * number for number in range(1, attempts + 1)]
    assert desk.given_up == [("key", call.errors[-1])]
    assert len(call.errors) == attempts
    assert (desk.retrier.pending, desk.timer.pending) == (0, 0)


@pytest.mark.asyncio
async def test_what_succeeds_with_its_last_attempt_is_not_given_up() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    call = desk.call(2)
    await world.run(1000)
    assert (call.begun, call.succeeded, desk.given_up) == ([5, 10, 15], 1, [])


@pytest.mark.parametrize("submitted", [0, 0.3, 2.5, 4.999], ids=lambda at: f"submitted at {at} s")
@pytest.mark.parametrize("tick", [1, 2.5, 5], ids=lambda tick: f"tick {tick} s")
@pytest.mark.asyncio
async def test_the_real_period_is_the_delay_however_coarse_the_tick(tick: float, submitted: float) -> None:
    world = SteppedWorld()
    desk = Desk(world, tick=tick, attempts=20)
    await world.run(submitted)
    call = desk.call()
    await world.run(200)
    assert [later - earlier for earlier, later in pairwise(call.begun)] == [5] * 19
    assert 5 <= call.begun[0] - submitted < 5 + tick


@pytest.mark.parametrize("tick", [0.7, 2, 3, 4.9], ids=lambda tick: f"tick {tick} s")
@pytest.mark.asyncio
async def test_each_attempt_is_less_than_a_tick_late(
    tick: float,
) -> None:
    world = SteppedWorld()
    desk = Desk(world, tick=tick, attempts=100)
    call = desk.call()
    await world.run(600)
    lateness = [begun - 5 * number for number, begun in enumerate(call.begun, 1)]
    assert len(lateness) == 100
    assert min(lateness) > -1e-9
    assert max(lateness) < tick


@pytest.mark.parametrize("tick", [5.5, 6, 30], ids=lambda tick: f"tick {tick} s")
@pytest.mark.asyncio
async def test_attempts_keep_a_delay_shorter_than_a_tick(tick: float) -> None:
    world = SteppedWorld()
    desk = Desk(world, tick=tick, attempts=12)
    call = desk.call()
    await world.run(1000)
    assert min(later - earlier for earlier, later in pairwise(call.begun)) >= 5
    assert max(later - earlier for earlier, later in pairwise(call.begun)) <= 2 * tick


@pytest.mark.asyncio
async def test_the_time_an_attempt_takes_is_added_to_the_delay() -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=4)
    call = desk.call(takes=3)
    await world.run(100)
    assert (call.begun, call.ended) == ([5, 13, 21, 29], [8, 16, 24, 32])


@pytest.mark.asyncio
async def test_after_a_block_attempts_do_not_come_in_a_burst() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    call = desk.call()
    world.clock.move(60)
    await world.run(20)
    assert call.begun == [60, 65, 70]


@pytest.mark.asyncio
async def test_each_failure_makes_the_delay_longer_up_to_the_longest() -> None:
    world = SteppedWorld()
    desk = Desk(world, delay=1, attempts=8, backoff=2, max_delay=10)
    call = desk.call()
    await world.run(100)
    assert call.begun == [1, 3, 7, 15, 25, 35, 45, 55]


@pytest.mark.asyncio
async def test_unbounded_backoff_does_not_exceed_the_timer() -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=None, backoff=1e9, jitter=1.0, random=lambda: 1.0)
    call = desk.call(5)
    for _ in range(6):
        await world.run(3_155_760_000)
    assert (len(call.begun), call.succeeded, desk.given_up) == (6, 1, [])


@pytest.mark.asyncio
async def test_jitter_makes_each_delay_longer_by_a_random_share_of_it() -> None:
    world = SteppedWorld()
    shares = iter([0.0, 1.0, 0.5, 0.25])
    desk = Desk(world, delay=10, attempts=4, backoff=2, jitter=0.4, random=lambda: next(shares))
    call = desk.call()
    await world.run(1000)
    assert call.begun == [10, 10 + 28, 38 + 48, 86 + 88]


@pytest.mark.asyncio
async def test_with_the_default_random_jitter_stays_in_its_share() -> None:
    world = SteppedWorld()
    desk = Desk(world, delay=10, attempts=200, jitter=0.1)
    call = desk.call()
    await world.run(3000)
    gaps = [later - earlier for earlier, later in pairwise(call.begun)]
    assert len(gaps) == 199
    assert min(gaps) >= 9.998
    assert max(gaps) <= 11.002
    assert len(set(gaps)) > 100


# What fails.


@each_kind
@pytest.mark.parametrize("error", [OSError, PlannedBaseError, GeneratorExit])
@pytest.mark.asyncio
async def test_an_exception_from_the_call_or_the_await_is_a_failure(
    kind: Callable[[BaseException], Any], error: type[BaseException]
) -> None:
    world, reported, broken = SteppedWorld(), reports(), error("broken")
    desk = Desk(world)
    desk.retrier.submit("key", kind(broken))
    await world.run(1000)
    assert (desk.given_up, reported) == ([("key", broken)], [])


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("steps", [0, 1], ids=["in its first step", "after a suspension"])
@pytest.mark.parametrize("factory", ["lazy", "eager_task_factory"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_gets_through_and_counts_as_a_failure(
    interrupt: type[BaseException], steps: int, factory: str
) -> None:
    if factory != "lazy" and not hasattr(asyncio, factory):
        pytest.skip("eager tasks came with CPython 3.12")
    world = SteppedWorld()

    async def attempt() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise interrupt

    async def begin() -> Desk:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, factory, None))
        desk = Desk(world)
        desk.retrier.submit("key", attempt)
        return desk

    async def another_delay() -> None:
        reports()  # an eager task that is interrupted in its first step reports that as not retrieved
        world.clock.move(5)
        world.clock.ring()
        await some_passes()

    async def some_passes() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    with asyncio.Runner() as runner:
        desk = runner.run(begin())
        for pending in (1, 1, 0):
            with pytest.raises(interrupt):
                runner.run(another_delay())
            runner.run(some_passes())
            assert desk.retrier.pending == pending
        assert [(key, type(failure)) for key, failure in desk.given_up] == [("key", interrupt)]


@pytest.mark.asyncio
async def test_a_plain_function_fails_with_an_error_that_names_it() -> None:
    world = SteppedWorld()
    desk = Desk(world)

    def a_plain_function() -> int:
        return 42

    desk.retrier.submit("key", a_plain_function)
    await world.run(1000)
    [(key, failure)] = desk.given_up
    assert (key, type(failure)) == ("key", TypeError)
    assert "a_plain_function" in str(failure)
    assert "42" in str(failure)


@pytest.mark.asyncio
async def test_a_plain_function_returning_an_awaitable_is_an_attempt() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    call = Call(desk.timer, failures=1)
    desk.retrier.submit("key", lambda: asyncio.ensure_future(call.attempt()))
    await world.run(1000)
    assert (call.begun, call.succeeded, desk.given_up) == ([5, 10], 1, [])


@pytest.mark.asyncio
@pytest.mark.parametrize("begun", [True, False], ids=["under way", "before its first step"])
async def test_a_cancellation_from_outside_ends_the_intent(begun: bool) -> None:
    world, reported = SteppedWorld(), reports()
    desk = Desk(world, attempts=2, on_give_up=None)
    before = asyncio.all_tasks()
    call = desk.call(takes=2)
    await world.run(5)
    for _ in range(begun):
        await settle()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await world.run(1000)
    assert (call.begun, reported) == ([5] if begun else call.begun, [])
    assert (desk.retrier.pending, desk.timer.pending) == (0, 0)


@pytest.mark.asyncio
async def test_a_cancellation_from_inside_is_a_failure() -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=2)
    dropped = asyncio.get_running_loop().create_future()
    dropped.cancel()

    async def attempt() -> None:
        await dropped

    desk.retrier.submit("key", attempt)
    await world.run(1000)
    assert [(key, type(failure)) for key, failure in desk.given_up] == [("key", asyncio.CancelledError)]


# What is given up.


@pytest.mark.asyncio
async def test_without_a_callback_giving_up_is_reported_with_its_key() -> None:
    world, reported = SteppedWorld(), reports()
    desk = Desk(world, on_give_up=None)
    call = desk.call()
    await world.run(1000)
    assert [context["exception"] for context in reported] == [call.errors[-1]]
    assert "'key'" in reported[0]["message"]
    assert "gave up" in reported[0]["message"]


@pytest.mark.asyncio
async def test_a_raising_callback_is_reported_and_other_keys_go_on() -> None:
    world, reported = SteppedWorld(), reports()

    def log(key: object, failure: BaseException) -> None:
        raise LookupError(f"no log for {key}")

    desk = Desk(world, on_give_up=log)
    first, second = desk.call(), Call(desk.timer, 1)
    desk.retrier.submit("other", second.attempt)
    await world.run(1000)
    assert [type(context["exception"]) for context in reported] == [LookupError]
    assert (len(first.begun), second.succeeded, desk.retrier.pending) == (3, 1, 0)


@pytest.mark.asyncio
async def test_a_callback_may_resubmit_its_key_even_when_full() -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=1, max_pending=1)
    call = Call(desk.timer, 2)
    desk.retrier.on_give_up = lambda key, _: desk.retrier.submit(key, call.attempt)
    desk.retrier.submit("key", call.attempt)
    await world.run(1000)
    assert (call.begun, call.succeeded) == ([5, 10, 15], 1)


def numbers() -> Iterator[float]:
    yield 0.5
    raise LookupError("no more numbers")


@pytest.mark.asyncio
async def test_it_gives_up_when_the_next_delay_is_invalid() -> None:
    world, reported = SteppedWorld(), reports()
    shares = numbers()
    desk = Desk(world, jitter=0.5, random=lambda: next(shares))
    desk.call()
    await world.run(1000)
    assert [(key, type(failure)) for key, failure in desk.given_up] == [("key", LookupError)]
    assert (desk.retrier.pending, reported) == (0, [])


@pytest.mark.asyncio
async def test_it_gives_up_when_the_timer_is_full() -> None:
    world = SteppedWorld()
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

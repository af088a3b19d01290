"""Context variables and references: what a callback sees, and what a timer keeps alive, and until when."""

import asyncio
import contextvars
import functools
import math
import weakref
from collections.abc import Callable

import pytest

from purgatory_async import Timer, TimerHandle
from purgatory_async.testing import settle
from tests.loop.worlds import World, by_reference_counts_alone, reports

pytestmark = pytest.mark.asyncio


user = contextvars.ContextVar("user", default="no user")


request = contextvars.ContextVar[object]("request")


delays = pytest.mark.parametrize("delay", [0, 1, 70, math.inf], ids=lambda delay: f"after {delay} s")


class Burden:
    """Something whose end can be seen."""


def in_a_request(start: Callable[[], TimerHandle]) -> tuple[TimerHandle, "weakref.ref[object]"]:
    """Start a callback from a context that holds something, as a web framework's does."""

    def handle_request() -> tuple[TimerHandle, "weakref.ref[object]"]:
        burden = Burden()
        request.set(burden)
        return start(), weakref.ref(burden)

    return contextvars.Context().run(handle_request)


async def test_a_callback_runs_in_a_copy_of_its_callers_context(world: World) -> None:
    timer, seen = world.timer(), []

    def callback() -> None:
        seen.append(user.get())
        user.set("the callback")

    user.set("the caller")
    for delay in (0, 1, 1):
        timer.call_later(delay, callback)
    user.set("another user")
    await world.run(1)
    assert (seen, user.get()) == (["the caller"] * 3, "another user")


async def test_a_rescheduled_callback_keeps_its_first_context(world: World) -> None:
    timer, seen = world.timer(), []
    user.set("the starter")
    handle = timer.call_later(1, lambda: seen.append(user.get()))
    user.set("the one who put it off")
    handle.reschedule(2)
    await world.run(2)
    assert seen == ["the starter"]


async def test_a_callback_started_in_a_callback_sees_what_that_one_set(world: World) -> None:
    timer, seen = world.timer(), []

    def first() -> None:
        user.set("the first")
        timer.call_later(1, lambda: seen.append(user.get()))

    timer.call_later(1, first)
    await world.run(2)
    assert seen == ["the first"]


@delays
async def test_cancelling_frees_the_context_at_once(world: World, delay: float) -> None:
    timer = world.timer()
    timer.call_later(1_000, int)
    with by_reference_counts_alone():
        handle, burden = in_a_request(lambda: timer.call_later(delay, int))
        assert burden() is not None
        handle.cancel()
        assert burden() is None


@delays
async def test_cancelling_frees_callback_and_arguments_at_once(world: World, delay: float) -> None:
    timer, burden = world.timer(), Burden()
    witness = weakref.ref(burden)
    with by_reference_counts_alone():
        handles = [timer.call_later(delay, print, burden), timer.call_later(delay, lambda kept=burden: None)]
        del burden
        assert witness() is not None
        for handle in handles:
            handle.cancel()
        assert witness() is None


async def test_firing_frees_everything(world: World) -> None:
    timer, burden, seen = world.timer(), Burden(), []
    witness = weakref.ref(burden)
    with by_reference_counts_alone():
        start = functools.partial(timer.call_later, 1, lambda kept: seen.append("called"), burden)
        handle, requested = in_a_request(start)
        del burden, start
        await world.run(1)
        assert (seen, witness(), requested(), handle.fired) == (["called"], None, None, True)


async def test_a_callback_that_raised_is_freed_with_its_report(world: World) -> None:
    timer, reported, burden = world.timer(), reports(), Burden()
    witness = weakref.ref(burden)

    def broken(_: object) -> None:
        raise ValueError("broken")

    with by_reference_counts_alone():
        timer.call_later(1, broken, burden)
        del burden
        await world.run(1)
        assert len(reported) == 1
        reported.clear()
        assert witness() is None


async def test_closing_frees_callbacks_even_while_handles_are_held(world: World) -> None:
    timer = world.timer()
    with by_reference_counts_alone():
        _, burden = in_a_request(lambda: timer.call_later(1, int))
        returned = timer.close()
        assert (len(returned), burden()) == (1, None)


@pytest.mark.parametrize("how", ["wakes", "is cancelled"])
async def test_a_sleep_that_is_over_holds_nothing(world: World, how: str) -> None:
    timer, burden = world.timer(), Burden()
    witness = weakref.ref(burden)

    async def sleeper(kept: Burden) -> None:
        await timer.sleep(1)

    with by_reference_counts_alone():
        task = asyncio.create_task(sleeper(burden))
        del burden
        await settle()
        if how == "wakes":
            await world.run(1)
        else:
            task.cancel()
            await settle()
        assert task.done()
        del task
        assert witness() is None


@pytest.mark.parametrize("delay", [0, 50.0], ids=["zero delay", "on the wheel"])
async def test_on_the_systems_clock_the_armed_wakeup_holds_no_context(delay: float) -> None:
    timer = Timer()
    with by_reference_counts_alone():
        handle, burden = in_a_request(lambda: timer.call_later(delay, int))
        handle.cancel()
        assert burden() is None
    timer.close()

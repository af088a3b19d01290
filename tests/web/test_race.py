"""A wait that ends in a given turn of the loop: its value is received exactly once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio
import pytest

from purgatory_async import Purgatory
from purgatory_async.patterns import HandOff
from purgatory_async.testing import assert_clean, settle
from purgatory_async.web.race import ClientLeft, Interruptible, Race, ServerStops
from tests.web.turns import after_passes, end_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_stays_behind")]


async def race(wait: Callable[..., Awaitable[object]], *args: object) -> tuple[Race, asyncio.Task[object]]:
    """A wait under way that can be ended in a given pass of the loop, without a server in between."""
    begun: list[Race] = []

    async def run() -> object:
        begun.append(Race())
        return await begun[0].run(wait, args, timeout=5)

    task = asyncio.create_task(run())
    await settle()
    return begun[0], task


async def test_an_item_just_before_its_taker_leaves_returns_in_front(purgatory):
    jobs = HandOff(purgatory)
    taking, task = await race(jobs.take, "resize")
    assert jobs.put("resize", "first")
    jobs.put("resize", "second")
    taking.leave()
    with pytest.raises(ClientLeft):
        await end_of(task)
    assert jobs.clear() == [("resize", "first"), ("resize", "second")]


async def test_an_item_just_after_its_taker_left_is_kept(purgatory):
    jobs = HandOff(purgatory)
    taking, task = await race(jobs.take, "resize")
    taking.leave()
    assert not jobs.put("resize", "cat.png")
    with pytest.raises(ClientLeft):
        await end_of(task)
    assert jobs.clear() == [("resize", "cat.png")]


async def test_a_condition_is_not_checked_for_a_client_that_left(purgatory):
    items = deque()
    taking, task = await race(partial(purgatory.wait, until=lambda: items and items.popleft()), "k")
    taking.leave()
    items.append("cat.png")
    assert purgatory.check_and_complete("k") == 0
    with pytest.raises(ClientLeft):
        await end_of(task)
    assert items == deque(["cat.png"])


async def test_only_a_hand_off_returns_what_a_leaving_client_took(
    purgatory,
):
    items = deque(["cat.png"])
    gate = []
    taking, task = await race(partial(purgatory.wait, until=lambda: gate and items.popleft()), "k")
    gate.append("open")
    assert purgatory.check_and_complete("k") == 1
    taking.leave()
    with pytest.raises(ClientLeft):
        await end_of(task)
    assert items == deque()


async def test_a_stopping_server_completes_an_answer_under_way(purgatory):
    waiting, task = await race(purgatory.wait, "k")
    purgatory.complete_for_key("k", "green")
    waiting.stop()
    assert await end_of(task) == "green"


async def test_a_server_that_stops_takes_no_answer_after(purgatory):
    waiting, task = await race(purgatory.wait, "k")
    waiting.stop()
    assert purgatory.complete_for_key("k", "green") == 0
    with pytest.raises(ServerStops):
        await end_of(task)


@pytest.mark.parametrize("first", ["leave", "stop"])
async def test_a_client_may_leave_as_the_server_stops(purgatory, first):
    waiting, task = await race(purgatory.wait, "k")
    for end in (waiting.leave, waiting.stop) if first == "leave" else (waiting.stop, waiting.leave):
        end()
    with pytest.raises((ClientLeft, ServerStops)):
        await end_of(task)
    assert task.cancelling() == 0


async def test_a_wait_that_keeps_its_value_on_cancellation_returns_it(purgatory):
    async def stubborn(*, timeout):
        try:
            return await purgatory.wait("k", timeout=timeout)
        except asyncio.CancelledError:
            return "what there was"

    waiting, task = await race(stubborn)
    waiting.leave()
    assert await end_of(task) == "what there was"
    assert task.cancelling() == 0


async def test_a_wait_that_fails_when_it_is_cancelled_fails(purgatory):
    async def brittle(*, timeout):
        try:
            await purgatory.wait("k", timeout=timeout)
        finally:
            raise LookupError("while cleaning up")

    waiting, task = await race(brittle)
    waiting.leave()
    with pytest.raises(LookupError):
        await end_of(task)
    assert task.cancelling() == 0


async def test_after_its_end_nothing_ends_it_again(purgatory):
    waiting, task = await race(purgatory.wait, "k")
    purgatory.complete_for_key("k")
    await end_of(task)
    waiting.leave()
    waiting.stop()
    waiting.fail(LookupError("late"))
    await settle()
    assert task.cancelling() == 0


async def test_a_race_that_ended_before_it_began_calls_nothing():
    called = []
    early = Race()
    early.leave()
    with pytest.raises(ClientLeft):
        await early.run(called.append, (), timeout=5)
    assert called == []


@pytest.mark.parametrize("first", ["client", "outside"])
async def test_a_cancellation_as_the_client_leaves_propagates(purgatory, first):
    waiting, task = await race(purgatory.wait, "k")
    for end in (waiting.leave, task.cancel) if first == "client" else (task.cancel, waiting.leave):
        end()
    with pytest.raises(asyncio.CancelledError):
        await end_of(task)
    assert_clean(purgatory)


@pytest.mark.parametrize("first", ["client", "outside"])
async def test_a_timeout_as_the_client_leaves_is_a_timeout(purgatory, first):
    waiting = Race()
    with pytest.raises(TimeoutError):  # noqa: PT012 - the timeout is what raises
        async with asyncio.timeout(None) as limit:
            # A timeout that is rescheduled to the past fires a turn later.
            ends = [(2, waiting.leave), (1, partial(limit.reschedule, 0))]
            for offset, call in ends if first == "client" else reversed(ends):
                after_passes(offset, call)
            await waiting.run(purgatory.wait, ("k",), timeout=5)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("first", ["inside", "outside"])
async def test_an_outer_scope_cancelled_at_server_stop_is_honoured(purgatory, first):
    with anyio.CancelScope() as scope:
        waiting = Race()
        loop = asyncio.get_running_loop()
        ends = [waiting.stop, scope.cancel]
        for end in ends if first == "inside" else reversed(ends):
            loop.call_soon(end)
        with pytest.raises((ServerStops, asyncio.CancelledError)):
            await waiting.run(purgatory.wait, ("k",), timeout=5)
        await asyncio.sleep(0)
        pytest.fail("the scope's cancellation was lost")
    assert scope.cancelled_caught
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.asyncio
async def test_a_wait_already_called_is_refused_with_a_remedy() -> None:
    async with Purgatory() as purgatory:
        with pytest.raises(TypeError, match=r"not called yet, as builds\.wait"):
            await Race().run(purgatory.wait("build:7"), (), 1.0)  # type: ignore[arg-type]
        assert purgatory.pending == 0


async def test_after_an_interruption_another_wait_is_cancelled_as_ever():
    begun = []

    async def run():
        begun.append(Interruptible())
        for _ in range(2):
            with suppress(LookupError), begun[0]:
                await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await settle()
    begun[0].fail(LookupError())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await end_of(task)

"""What closing a `Retrier` leaves undone; and what its attempts see, and it shows."""

import asyncio

import pytest

from purgatory_async import PurgatoryClosed
from purgatory_async.testing import settle
from tests.loop.worlds import SteppedWorld, reports
from tests.patterns.calls import Call
from tests.patterns.desk import Desk


@pytest.mark.asyncio
async def test_closing_returns_what_waits_and_leaves_nothing() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    calls = {key: Call(desk.timer) for key in "abc"}
    for key, call in calls.items():
        desk.retrier.submit(key, call.attempt)
    undone = await desk.retrier.aclose()
    assert undone == {key: call.attempt for key, call in calls.items()}
    assert (desk.retrier.pending, desk.timer.pending, desk.timer.next_deadline) == (0, 0, None)
    await world.run(1000)
    assert [call.begun for call in calls.values()] == [[], [], []]
    assert desk.given_up == []


@pytest.mark.asyncio
async def test_closed_again_it_returns_nothing() -> None:
    desk = Desk(SteppedWorld())
    desk.call()
    first, second = await asyncio.gather(desk.retrier.aclose(), desk.retrier.aclose())
    assert (len(first), len(second), await desk.retrier.aclose()) == (1, 0, {})


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.asyncio
async def test_closing_cancels_an_attempt_and_returns_its_intent(attempts: int) -> None:
    world, reported, ended = SteppedWorld(), reports(), []
    desk = Desk(world, attempts=attempts)

    async def attempt() -> None:
        try:
            await desk.timer.sleep(100)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append(desk.timer.time())

    desk.retrier.submit("key", attempt)
    waiting = Call(desk.timer)
    await world.run(4)
    desk.retrier.submit("other", waiting.attempt)
    await world.run(2)
    assert await desk.retrier.aclose() == {"key": attempt, "other": waiting.attempt}
    assert (ended, desk.given_up, reported, desk.timer.pending) == ([6], [], [], 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.asyncio
async def test_an_attempt_failing_from_close_is_returned_not_given_up(attempts: int) -> None:
    world = SteppedWorld()
    desk = Desk(world, attempts=attempts)

    async def attempt() -> None:
        try:
            await desk.timer.sleep(100)
        except asyncio.CancelledError:
            raise ConnectionError("closed") from None

    desk.retrier.submit("key", attempt)
    await world.run(6)
    assert await desk.retrier.aclose() == {"key": attempt}
    assert (desk.given_up, desk.timer.pending) == ([], 0)


@pytest.mark.asyncio
async def test_an_attempt_succeeding_despite_close_is_not_returned() -> None:
    world = SteppedWorld()
    desk = Desk(world)

    async def attempt() -> None:
        try:
            await desk.timer.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    desk.retrier.submit("key", attempt)
    await world.run(6)
    assert await desk.retrier.aclose() == {}


@pytest.mark.asyncio
async def test_the_newer_intent_of_a_resubmitted_key_is_returned() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    former = desk.call(takes=100)
    await world.run(6)
    waiting = desk.call()
    await world.run(6)  # it has fallen due
    assert await desk.retrier.aclose() == {"key": waiting.attempt}
    await world.run(1000)
    assert (former.cancelled, waiting.begun) == (1, [])


@pytest.mark.asyncio
async def test_closed_inside_an_attempt_it_goes_on_and_is_returned() -> None:
    world, undone, ended = SteppedWorld(), {}, []
    desk = Desk(world)
    other = Call(desk.timer, takes=100)

    async def attempt() -> None:
        undone.update(await desk.retrier.aclose())
        await asyncio.sleep(0)
        ended.append(desk.timer.time())
        raise OSError("broken")

    desk.retrier.submit("other", other.attempt)
    desk.retrier.submit("key", attempt)
    await world.run(1000)
    assert undone == {"key": attempt, "other": other.attempt}
    assert (ended, desk.given_up, desk.timer.pending, desk.retrier.pending) == ([5], [], 0, 0)
    assert other.cancelled == len(other.begun)


@pytest.mark.asyncio
async def test_a_cancelled_aclose_can_be_repeated_and_returns_all() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    release = asyncio.Event()

    async def attempt() -> None:
        try:
            await desk.timer.sleep(100)
        finally:
            await asyncio.shield(waited := asyncio.ensure_future(release.wait()))
            await waited

    desk.retrier.submit("key", attempt)
    waiting = Call(desk.timer)
    await world.run(4)
    desk.retrier.submit("other", waiting.attempt)
    await world.run(2)
    closing = asyncio.create_task(desk.retrier.aclose())
    await settle()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(PurgatoryClosed):
        desk.call()
    release.set()
    assert await desk.retrier.aclose() == {"key": attempt, "other": waiting.attempt}
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert desk.timer.pending == 0


@pytest.mark.asyncio
async def test_it_stops_with_its_timer_and_aclose_returns_the_rest() -> None:
    world, reported = SteppedWorld(), reports()
    desk = Desk(world)
    waiting, release = desk.call(), asyncio.Event()

    async def attempt() -> None:
        await release.wait()
        raise OSError("broken")

    desk.retrier.submit("other", attempt)
    await world.run(6)
    assert len(waiting.begun) == 1
    desk.timer.close()
    release.set()
    await world.run(1000)
    assert (len(waiting.begun), desk.given_up, reported) == (1, [], [])
    assert desk.retrier.pending == 2
    assert await desk.retrier.aclose() == {"key": waiting.attempt, "other": attempt}


@pytest.mark.asyncio
async def test_an_attempt_that_closes_the_timer_can_still_succeed() -> None:
    world = SteppedWorld()
    desk = Desk(world)

    async def attempt() -> None:
        desk.timer.close()

    desk.retrier.submit("key", attempt)
    await world.run(5)
    assert (desk.retrier.pending, await desk.retrier.aclose()) == (0, {})


# What it sees and shows.


@pytest.mark.asyncio
async def test_its_repr_tells_the_delay_and_how_much_there_is_to_do() -> None:
    world = SteppedWorld()
    desk = Desk(world)
    desk.call(takes=2)
    assert repr(desk.retrier) == "<Retrier every 5.0 s pending=1 running=0>"
    await world.run(6)
    assert repr(desk.retrier) == "<Retrier every 5.0 s pending=1 running=1>"
    await desk.retrier.aclose()
    assert repr(desk.retrier) == "<Retrier every 5.0 s pending=0 running=0>"

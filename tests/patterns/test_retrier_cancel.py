"""`Retrier.cancel` stops whatever runs for the key, also an attempt that a newer intent has superseded."""

import asyncio

import pytest

from tests.loop.worlds import SteppedWorld, reports
from tests.patterns.calls import Call
from tests.patterns.desk import Desk


@pytest.mark.asyncio
async def test_cancel_also_stops_a_superseded_attempt() -> None:
    world, reported = SteppedWorld(), reports()
    desk = Desk(world)
    former = desk.call(takes=10)
    desk.retrier.submit("other", (other := Call(desk.timer, 0, takes=10)).attempt)
    await world.run(6)
    newer = desk.call()
    assert desk.retrier.cancel("key") is True
    await world.run(1000)
    assert (former.ended, former.cancelled, newer.begun) == ([6], 1, [])
    assert (other.succeeded, desk.given_up, reported, desk.timer.pending) == (1, [], [], 0)


@pytest.mark.asyncio
async def test_cancel_spares_a_superseded_attempt_that_calls_it() -> None:
    world, ended = SteppedWorld(), []
    desk = Desk(world)

    async def attempt() -> None:
        newer = desk.call()
        assert desk.retrier.cancel("key") is True
        await asyncio.sleep(0)
        ended.append(newer.begun)

    desk.retrier.submit("key", attempt)
    await world.run(1000)
    assert ended == [[]]


@pytest.mark.asyncio
async def test_a_second_cancel_leaves_an_attempt_to_clean_up() -> None:
    world, cleaned = SteppedWorld(), []
    desk = Desk(world)

    async def attempt() -> None:
        try:
            await desk.timer.sleep(100)
        finally:
            await desk.timer.sleep(20)
            cleaned.append(desk.timer.time())

    desk.retrier.submit("key", attempt)
    await world.run(6)
    assert desk.retrier.cancel("key") is True
    newer = desk.call()
    await world.run(1)
    assert desk.retrier.cancel("key") is True
    await world.run(1000)
    assert (cleaned, newer.begun) == ([26], [])

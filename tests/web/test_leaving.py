"""A client that disconnects, and a task cancelled from outside: nothing leaks and nothing is lost."""

import asyncio
from collections import deque
from functools import partial

import pytest

from purgatory_async import Purgatory, Timer
from purgatory_async.patterns import HandOff
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from purgatory_async.web import asgi_poll
from tests.cancelling import each_way
from tests.web.exchange import Exchange
from tests.web.turns import after_passes, end_of, passes

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_stays_behind")]


async def held(*wait, **request):
    exchange = Exchange(*wait, **request).start()
    await settle()
    assert not exchange.answered
    return exchange


async def test_a_client_that_leaves_takes_its_wait_with_it(purgatory):
    exchange = await held(purgatory.wait, "k")
    exchange.hang_up()
    await settle()
    assert_clean(purgatory)
    assert (exchange.status, exchange.body) == (499, b"")


async def test_the_wait_is_withdrawn_in_the_turn_of_the_disconnect(purgatory):
    exchange = await held(purgatory.wait, "k")
    exchange.hang_up()
    await asyncio.sleep(0)  # the listener hears it in this turn, before us
    assert purgatory.complete_for_key("k") == 0
    assert not exchange.answered


async def test_a_client_gone_before_its_wait_is_released_at_once(purgatory):
    exchange = Exchange(purgatory.wait, "k")
    exchange.hang_up()
    exchange.start()
    await settle()
    assert_clean(purgatory)
    assert exchange.status == 499


async def test_a_server_that_says_it_with_an_os_error_is_understood(purgatory):
    exchange = await held(purgatory.wait, "k")
    exchange.inbox.put_nowait(ConnectionResetError("gone"))
    await settle()
    assert_clean(purgatory)
    assert exchange.status == 499


async def test_another_fault_of_the_server_goes_to_the_framework(purgatory):
    exchange = await held(purgatory.wait, "k")
    exchange.inbox.put_nowait(LookupError("a fault of the server"))
    with pytest.raises(LookupError, match="a fault of the server"):
        await end_of(exchange.task)
    assert_clean(purgatory)


async def test_the_task_of_a_client_that_left_is_as_it_was(purgatory):
    exchange = Exchange(purgatory.wait, "k")

    async def handler():
        await exchange.running
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(handler())
    await settle()
    exchange.hang_up()
    assert await end_of(task) == "went on"
    assert exchange.status == 499


async def test_one_client_that_leaves_disturbs_no_other(purgatory):
    exchanges = [await held(purgatory.wait, "k") for _ in range(5)]
    exchanges[2].hang_up()
    await settle()
    assert purgatory.complete_for_key("k", "green") == 4
    await settle()
    assert [exchange.status for exchange in exchanges] == [200, 200, 499, 200, 200]


# A client that leaves as its answer comes.

OFFSETS = range(6)


@pytest.mark.parametrize("left", OFFSETS)
@pytest.mark.parametrize("came", OFFSETS)
@pytest.mark.parametrize("first", ["came", "left"])
async def test_an_item_is_delivered_or_kept_whenever_the_client_leaves(purgatory, came, left, first):
    jobs = HandOff(purgatory)
    exchange = await held(jobs.take, "resize")
    happenings = [(came, partial(jobs.put, "resize", "cat.png")), (left, exchange.hang_up)]
    for offset, call in happenings if first == "came" else reversed(happenings):
        after_passes(offset, call)
    await passes(len(OFFSETS))
    await settle()
    if exchange.status == 200:
        assert (exchange.json, len(jobs)) == (["resize", "cat.png"], 0)
        assert came <= left
    else:
        assert (exchange.status, jobs.clear()) == (499, [("resize", "cat.png")])
        assert left <= came
    assert_clean(purgatory)


# Cancellations that are not ours.


@each_way
async def test_a_cancellation_from_outside_withdraws_the_wait(purgatory, cancel):
    exchange = Exchange(purgatory.wait, "k")
    await cancel(exchange.running)
    assert exchange.sent == []
    assert_clean(purgatory)
    await settle()
    assert exchange.inbox._getters == deque()


class Scene:
    """A poll, and something that happens a few turns of the loop after it began."""

    def __init__(self, event):
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.jobs = HandOff(self.purgatory)
        wait = self.jobs.take if event == "put" else self.purgatory.wait
        self.exchange = Exchange(wait, "k", query="wait=5")
        after_passes(2, getattr(self, event))
        after_passes(12, self.purgatory.close)  # whatever nothing else has ended

    def complete(self):
        self.purgatory.complete_for_key("k", "green")

    def expire(self):
        self.clock.advance(5)

    def close(self):
        self.purgatory.close()

    def leave(self):
        self.exchange.hang_up()

    def put(self):
        self.jobs.put("k", "item")


ENDS = {"complete": 200, "expire": 204, "close": 503, "leave": 499, "put": 200}


@pytest.mark.parametrize("event", ENDS)
async def test_cancelled_anywhere_it_leaves_nothing_and_loses_nothing(event):
    scenes = []

    async def scenario():
        scenes.append(Scene(event))
        try:
            await scenes[-1].exchange.running
        finally:
            assert_clean(scenes[-1].purgatory)

    assert await cancel_sweep(scenario) == 1
    await passes(12)
    assert len(scenes) == 3
    assert [scene.exchange.status for scene in scenes if scene.exchange.answered] == [ENDS[event]]
    assert event != "put" or [len(scene.jobs) for scene in scenes] == [0, 1, 1]


async def test_a_client_that_leaves_while_it_is_answered_is_no_fault():
    async def wait(*, timeout):
        return "value"

    async def send(message):
        raise OSError("broken pipe")

    exchange = Exchange(wait)
    exchange.running.close()
    scope = {"type": "http", "query_string": b"", "headers": []}
    await asgi_poll(scope, exchange.receive, send, wait)

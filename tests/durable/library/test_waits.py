"""Waits for operations: until they end, until the waiter's own time is up, or until it is cancelled."""

import asyncio
import datetime as dt

import pytest

from tests.durable.library.calls import cancelled, every, refused, start

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("end", ["complete", "cancel", "signal", "fail", "expire"])
async def test_a_follower_returns_with_every_end(verbs, end):
    await verbs.submit(["k"], operation_id="o", timeout=0.6 if end == "expire" else 60)
    following = await start(verbs.follow("o"))
    calls = {
        "complete": lambda: verbs.complete("o", 1),
        "cancel": lambda: verbs.cancel("o"),
        "signal": lambda: verbs.signal("k"),
        "fail": lambda: verbs.fail("o", 1),
    }
    if end in calls:
        await calls[end]()
    found = await following
    states = {"complete": "completed", "cancel": "cancelled", "fail": "failed", "expire": "expired"}
    assert found.state == states.get(end, "completed")
    assert (await verbs.follow("o")).state == found.state


@pytest.mark.parametrize("timeout", [0, 0.2, dt.timedelta(milliseconds=200), "200ms"])
async def test_a_follower_whose_time_is_up_gets_it_pending(verbs, timeout):
    await verbs.submit(operation_id="o", timeout=60)
    assert (await verbs.follow("o", timeout=timeout)).pending
    assert (await verbs.status("o")).pending


async def test_many_follow_one_operation(verbs):
    await verbs.submit(operation_id="o")
    following = [asyncio.create_task(verbs.follow("o")) for _ in range(20)]
    await cancelled(await start(verbs.follow("o")))
    await verbs.complete("o", "all")
    assert [(await each).result for each in following] == ["all"] * 20


async def test_a_wait_ends_with_the_signal_of_its_key(verbs):
    waiting = await start(verbs.wait("a", "b", need="all", data={"n": 1}, timeout=60))
    [shown] = await every(verbs.operations("a"))
    assert (shown.keys, shown.need, shown.data) == (("a", "b"), "all", {"n": 1})
    await verbs.signal("a", 1)
    await verbs.signal("b", 2)
    ended = await waiting
    assert (ended.id, ended.state) == (shown.id, "completed")
    assert [signal["value"] for signal in ended.signals] == [1, 2]


async def test_a_wait_ends_with_its_timeout(verbs):
    assert (await verbs.wait("k", timeout="300ms")).state == "expired"
    assert (await verbs.wait("k", timeout=0)).state == "expired"


async def test_a_cancelled_wait_cancels_its_operation(verbs):
    waiting = await start(verbs.wait("k"))
    [shown] = await every(verbs.operations("k"))
    await cancelled(waiting)
    assert (await verbs.follow(shown.id, timeout=30)).state == "cancelled"


async def test_a_wait_with_a_number_behind_its_keys_is_an_error(verbs):
    with pytest.raises(TypeError, match="timeout="):
        await verbs.wait("k", 5.0)
    assert await every(verbs.operations()) == []


async def test_a_wait_without_keys_is_refused(verbs):
    await refused(verbs.wait(), 422, "invalid")


@pytest.mark.parametrize("verb", ["follow", "watch", "take"])
@pytest.mark.parametrize("timeout", [-1, "-1s", "1 s", float("nan")])
async def test_a_time_to_wait_that_is_none_is_an_error(verbs, verb, timeout):
    await verbs.submit(operation_id="o")
    calls = {
        "follow": lambda: verbs.follow("o", timeout=timeout),
        "watch": lambda: verbs.watch("o", 0, timeout=timeout),
        "take": lambda: verbs.take("o", timeout=timeout),
    }
    with pytest.raises(ValueError, match="timeout must"):
        await calls[verb]()

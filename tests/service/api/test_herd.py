"""A herd: what hundreds of requests wait for happens; it counts at once, and is answered a few at a time."""

import asyncio

import pytest

from purgatory_async.durable.waiting.pacing import SLICE
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

HERD = 5 * SLICE
TARGETS = {
    "wait": "/v1/wait?key=a&wait=9",
    "read": "/v1/keys/a?index=0&wait=9",
    "follow": "/v1/wait?key=a&since=0&wait=9",
    "operation": "/v1/operations/op?wait=9",
}
each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


async def until(over):
    """Let the loop run, pass by pass, until something holds."""
    while not over():  # noqa: ASYNC110 - an answer sets no event
        await asyncio.sleep(0)


async def gather_herd(client, target, size=HERD):
    """Requests that are all held."""
    if target == TARGETS["operation"]:
        await client.submit("a", id="op")
    herd = [client.start("GET", target) for _ in range(size)]
    await settle()
    assert client.service.held.requests.count == size
    return herd


async def until_first_answer(client, herd):
    """Signal the key, and stop when the first few have their answers."""
    signal = client.start("POST", "/v1/keys/a/signal", {"value": 1})
    await until(lambda: herd[0].answered)
    assert not herd[-1].answered
    return signal


@each_target
async def test_a_herd_is_answered_in_slices_oldest_first(client, target):
    herd = await gather_herd(client, target)
    client.start("POST", "/v1/keys/a/signal", {})
    answered, most = 0, 0
    while answered < HERD:
        await asyncio.sleep(0)
        flags = [each.answered for each in herd]
        now = sum(flags)
        assert flags == [True] * now + [False] * (HERD - now)
        answered, most = now, max(most, now - answered)
    assert most <= SLICE
    assert {each.status for each in herd} == {200}
    assert len({each.body for each in herd}) == 1
    await settle()


async def test_a_signal_counts_all_waits_before_their_answers(client):
    herd = await gather_herd(client, TARGETS["wait"])
    signal = await until_first_answer(client, herd)
    assert signal.json["completed"] == HERD
    await settle()
    assert client.service.metrics.ended["completed"] == HERD


@each_target
async def test_a_client_that_leaves_in_the_queue_is_skipped(client, target):
    herd = await gather_herd(client, target)
    await until_first_answer(client, herd)
    for gone in herd[-5:]:
        gone.hang_up()
    await settle()
    assert [each.answered for each in herd] == [True] * (HERD - 5) + [False] * 5
    assert all(each.over.done() for each in herd)


async def test_a_completed_wait_whose_client_left_is_undelivered(client):
    herd = await gather_herd(client, TARGETS["wait"])
    await until_first_answer(client, herd)
    herd[-1].hang_up()
    herd[-2].cancel()
    await settle()
    assert client.service.metrics.ended["completed"] == HERD
    assert client.service.metrics.undelivered == 2


@each_target
async def test_a_deadline_in_the_queue_takes_no_answer_away(client, target):
    herd = await gather_herd(client, target)
    await until_first_answer(client, herd)
    await client.advance(10)
    assert {each.status for each in herd} == {200}
    assert client.service.metrics.ended["expired"] == 0


@each_target
async def test_draining_answers_a_herd_with_what_happened(client, target):
    herd = await gather_herd(client, target)
    await until_first_answer(client, herd)
    client.service.drain()
    await settle()
    assert {each.status for each in herd} == {200}


async def test_other_waits_do_not_wait_for_a_herd(client):
    herd = await gather_herd(client, TARGETS["wait"], 4 * HERD)
    other = client.start("GET", "/v1/wait?key=b&wait=9")
    await settle()
    await until_first_answer(client, herd)
    client.start("POST", "/v1/keys/b/signal")
    await until(lambda: other.answered)
    assert not herd[-1].answered
    await settle()


async def test_a_wait_that_joins_an_answered_herd_needs_a_signal(client):
    herd = await gather_herd(client, TARGETS["wait"])
    await until_first_answer(client, herd)
    late = client.start("GET", TARGETS["wait"])
    await settle()
    assert herd[-1].answered
    assert not late.answered
    assert (await client.signal("a", value=2))["completed"] == 1
    assert late.json == {"signals": [{"key": "a", "index": 2, "value": 2}]}


async def test_a_herd_on_a_batch_of_keys_is_answered_in_slices(client):
    herd = [client.start("GET", f"/v1/wait?key={number}&wait=9") for number in range(HERD)]
    await settle()
    batch = {"signals": [{"key": str(number)} for number in range(HERD)]}
    signals = client.start("POST", "/v1/signals", batch)
    await until(lambda: any(each.answered for each in herd))
    assert sum(each.answered for each in herd) <= SLICE
    assert signals.json["completed"] == HERD
    await settle()
    assert {each.status for each in herd} == {200}

"""Answers of at most a megabyte: what they leave out, how they say so, and how to get all of it."""

import pytest
from msgspec import Raw

from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

MEGABYTE = 1 << 20
LARGE = "x" * 400_000


async def signalled(client, *keys, value=LARGE):
    return [(await client.signal(key, value=value))["index"] for key in keys]


@pytest.mark.parametrize("how", ["GET", "DELETE"])
async def test_an_operation_leaves_out_its_oldest_signals(client, how):
    await client.submit("a", "b", "c", "d", "e", id="op", need="all")
    indexes = await signalled(client, "a", "b", "c", "d")
    reply = await client.request(how, "/v1/operations/op")
    assert len(reply.body) < MEGABYTE
    assert [signal["index"] for signal in reply.json["signals"]] == indexes[2:]
    assert reply.json["left_out"] == 2
    full = (await client.request("GET", "/v1/operations/op?full=1")).json
    assert [signal["index"] for signal in full["signals"]] == indexes
    assert "left_out" not in full


async def test_a_held_submit_may_ask_for_all_signals(client):
    for full, count in (("", 2), ("&full=1", 3)):
        order = {"keys": ["a", "b", "c"], "need": "all"}
        held = await client.held("POST", f"/v1/operations?wait=30s{full}", order)
        await signalled(client, "a", "b", "c")
        await settle()
        assert len(held.json["signals"]) == count


async def test_a_one_shot_wait_leaves_out_its_oldest_signals(client):
    target = "/v1/wait?key=a&key=b&key=c&need=all&wait=30s"
    short, full = [await client.held("GET", each) for each in (target, f"{target}&full=1")]
    indexes = await signalled(client, "a", "b", "c")
    await settle()
    assert [signal["index"] for signal in short.json["signals"]] == indexes[1:]
    assert short.json["left_out"] == 1
    assert len(short.body) < MEGABYTE
    assert [signal["index"] for signal in full.json["signals"]] == indexes
    assert "left_out" not in full.json


async def test_a_small_answer_leaves_out_nothing(client):
    await client.submit("a", "b", id="op", need="all")
    await client.signal("a", value="x")
    reply = await client.request("GET", "/v1/operations/op")
    assert "left_out" not in reply.json
    assert len(reply.json["signals"]) == 1


async def test_a_list_ends_before_a_megabyte_and_goes_on(client):
    for number in range(5):
        await client.submit("a", id=f"op{number}", data=LARGE)
    found, cursor = [], ""
    while True:
        reply = await client.request("GET", f"/v1/operations?limit=10{cursor}")
        assert len(reply.body) <= MEGABYTE
        found += [[operation["id"] for operation in reply.json["operations"]]]
        if "next" not in reply.json:
            break
        cursor = f"&cursor={reply.json['next']}"
    assert found == [["op0", "op1"], ["op2", "op3"], ["op4"]]


async def test_a_peek_shows_at_least_one_item_however_long(client):
    for text in ("x" * 1_048_000, "y" * 600_000):
        await client.request("POST", "/v1/queues/q/items", {"item": text})
    first = (await client.request("GET", "/v1/queues/q/items")).json
    assert len(first["items"]) == 1
    rest = (await client.request("GET", f"/v1/queues/q/items?cursor={first['next']}")).json
    assert (len(rest["items"]), "next" in rest) == (1, False)


async def test_a_follower_hears_no_more_than_an_answer_holds(client):
    held = await client.held("GET", "/v1/wait?key=a&since=0&wait=30s")
    for _ in range(9):
        client.post(SignalKey(key="a", value=Raw(b'"%b"' % LARGE.encode())))
    assert [len(each.heard) for each in client.service.held.followers._by_key["a"]] == [3]
    await settle()
    assert (len(held.json["signals"]), held.json["more"], held.json["gap"]) == (2, True, False)
    rest = (await client.request("GET", f"/v1/wait?key=a&since={held.json['next']}")).json
    assert rest["signals"][0]["index"] == 3


@pytest.mark.parametrize("full", ["2", "yes", ""])
async def test_a_bad_switch_is_refused(client, full):
    reply = await client.request("GET", f"/v1/operations/op?full={full}")
    assert (reply.status, reply.json["parameter"]) == (400, "full")

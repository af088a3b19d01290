"""``POST /v1/signals``: signals in order and in one step, all or none."""

import pytest

pytestmark = pytest.mark.asyncio


async def post(client, *signals, **headers):
    return await client.request("POST", "/v1/signals", {"signals": list(signals)}, tuple(headers.items()))


async def shown(client, query):
    reply = await client.request("GET", f"/v1/wait?{query}")
    return (
        [(signal["key"], signal["index"]) for signal in reply.json["signals"]] if reply.status == 200 else []
    )


async def test_indexes_rise_in_the_order_of_a_batch(client):
    await client.signal("a")
    reply = await post(client, {"key": "b"}, {"key": "a", "value": 1}, {"key": "b", "value": None})
    assert (reply.status, reply.json) == (200, {"index": 4, "completed": 0})
    assert await shown(client, "key=a&key=b&since=0") == [("a", 1), ("b", 2), ("a", 3), ("b", 4)]
    assert (await client.request("GET", "/v1/keys/a")).json == {"key": "a", "index": 3, "value": 1}


async def test_a_batch_completes_operations_and_one_shot_waits(client):
    await client.submit("a", need={"amount": 3}, id="sum")
    await client.submit("a", "b", need="all", id="both")
    await client.submit("a", "c", need="all", id="more")
    waits = [await client.held("GET", f"/v1/wait?key={key}&wait=9") for key in "aab"]
    reply = await post(client, {"key": "a"}, {"key": "b"}, {"key": "a", "amount": 2})
    assert reply.json["completed"] == 5
    assert [(held.status, len(held.json["signals"])) for held in waits] == [(200, 1)] * 3
    states = [
        (await client.request("GET", f"/v1/operations/{name}")).json["state"]
        for name in ("sum", "both", "more")
    ]
    assert states == ["completed", "completed", "pending"]
    assert (await client.signal("z"))["completed"] == 0


async def test_a_batch_reaches_a_follower_in_one_answer(client):
    held = await client.held("GET", "/v1/wait?prefix=a&since=0&wait=9")
    await post(client, {"key": "a1"}, {"key": "b"}, {"key": "a2"}, {"key": "a1"})
    assert [(signal["key"], signal["index"]) for signal in held.json["signals"]] == [
        ("a1", 1),
        ("a2", 3),
        ("a1", 4),
    ]
    cut = await client.request("GET", "/v1/wait?prefix=a&since=0&limit=2")
    assert (cut.json["more"], cut.json["index"]) == (True, 3)
    assert await shown(client, f"prefix=a&since={cut.json['next']}") == [("a1", 4)]


async def test_a_thousand_signals_are_one_batch(client):
    reply = await post(client, *({"key": f"k{number % 7}"} for number in range(1000)))
    assert reply.json["index"] == 1000
    assert (await client.signal("k"))["index"] == 1001


@pytest.mark.parametrize("signals", [[], [{"key": "a"}] * 1001])
async def test_a_batch_has_one_to_a_thousand_signals(client, signals):
    reply = await post(client, *signals)
    assert (reply.status, [fault["pointer"] for fault in reply.json["errors"]]) == (422, ["/signals"])


async def test_each_fault_of_a_batch_is_told_and_nothing_happens(client):
    faulty = [
        {"key": "a"},
        {"key": "a", "amount": 0},
        {"key": ""},
        {"voter": "v"},
        {"key": "a", "also": 1},
        {"key": 7},
        "a",
        {"key": "a" * 513},
    ]
    reply = await post(client, *faulty)
    assert (reply.status, reply.json["type"]) == (422, "urn:purgatory:problem:invalid")
    assert [fault["pointer"] for fault in reply.json["errors"]] == [
        "/signals/1/amount",
        "/signals/2/key",
        "/signals/3/key",
        "/signals/4/also",
        "/signals/5/key",
        "/signals/6",
        "/signals/7/key",
    ]
    assert await shown(client, "key=a&since=0") == []
    assert (await client.signal("a"))["index"] == 1


async def test_of_many_faults_of_a_batch_sixteen_are_told(client):
    reply = await post(client, *[{"key": "."}] * 1000)
    assert [fault["pointer"] for fault in reply.json["errors"]] == [f"/signals/{n}/key" for n in range(16)]


async def test_a_repeated_batch_happens_once(client):
    first = await post(client, {"key": "a"}, {"key": "b"}, **{"idempotency-key": "x"})
    again = await post(client, {"key": "a"}, {"key": "b"}, **{"idempotency-key": "x"})
    assert (again.json, again.headers["idempotency-replayed"]) == (first.json, "true")
    other = await post(client, {"key": "a"}, **{"idempotency-key": "x"})
    assert (other.status, other.json["type"]) == (422, "urn:purgatory:problem:idempotency-mismatch")
    assert await shown(client, "key=a&key=b&since=0") == [("a", 1), ("b", 2)]

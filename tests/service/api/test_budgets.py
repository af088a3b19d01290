"""The budget of all that is kept: what makes room, what is refused when that does not do, and what goes on."""

import pytest

pytestmark = pytest.mark.asyncio

KIB = 1024


@pytest.fixture
def client(make_client):
    return make_client(max_bytes="64KiB", keep_signals=8)


def attachment(kib):
    return "x" * kib * KIB


def used(client):
    return client.service.fold.shared.kept.used


async def put(client, item, queue="q"):
    return await client.request("POST", f"/v1/queues/{queue}/items", {"item": item})


async def fill(client):
    """Use up the budget by what never makes room."""
    for number in range(12):
        await client.submit("never", id=f"pending{number}", data=attachment(5))


async def since(client, index, key="k"):
    return (await client.request("GET", f"/v1/wait?key={key}&since={index}")).json


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/operations", {"keys": ["a"], "data": attachment(5)}),
        ("/v1/keys/a/signal", {"value": attachment(5)}),
        ("/v1/signals", {"signals": [{"key": "a"}, {"key": "b", "value": attachment(5)}]}),
        ("/v1/queues/q/items", {"item": attachment(5)}),
        ("/v1/queues/q/items", {"items": [{"item": 1}, {"item": attachment(5)}]}),
    ],
)
async def test_what_has_no_room_is_refused_and_changes_nothing(client, path, body):
    await fill(client)
    before = used(client), client.service.fold.signals.index, client.service.timer.pending
    reply = await client.request("POST", path, body)
    assert (reply.status, reply.slug) == (503, "overloaded")
    assert int(reply.headers["retry-after"]) >= 1
    shown = {name: reply.json[name] for name in ("budget", "used", "limit", "flag")}
    assert shown == {"budget": "max_bytes", "used": before[0], "limit": 64 * KIB, "flag": "--max-bytes"}
    assert before == (used(client), client.service.fold.signals.index, client.service.timer.pending)


async def test_a_refused_request_forgets_no_history(client):
    await client.submit("a", id="ended")
    await client.request("DELETE", "/v1/operations/ended")
    await fill(client)
    assert (await client.request("POST", "/v1/keys/a/signal", {"value": attachment(9)})).status == 503
    assert (await client.request("GET", "/v1/operations/ended")).json["state"] == "cancelled"


async def test_reads_takes_acks_and_cancels_go_on_over_budget(client):
    await put(client, attachment(2))
    await fill(client)
    for number in range(40):  # until not even a small one has room
        await client.request("POST", "/v1/operations", {"keys": ["a"], "data": attachment(1)})
        await client.request("POST", "/v1/operations", {"keys": ["a"], "id": f"small{number}"})
    assert (await client.request("POST", "/v1/operations", {"keys": ["a"]})).status == 503
    lease = (await client.request("POST", "/v1/queues/q/take", {})).json["lease"]
    assert (await client.request("POST", f"/v1/leases/{lease}/ack")).status == 204
    assert (await client.request("GET", "/v1/operations/pending0")).json["state"] == "pending"
    assert (await client.request("DELETE", "/v1/operations/pending0")).json["state"] == "cancelled"
    assert (await client.request("POST", "/v1/keys/a/signal", {"value": attachment(3)})).status == 200


async def test_older_signals_make_room_with_a_gap_but_no_newest(client):
    first = (await client.signal("other", value=attachment(9)))["index"]
    for number in range(8):
        await client.signal("k", value=attachment(9) + str(number))
    found = await since(client, 0)
    assert found["gap"]
    assert [signal["value"][-1] for signal in found["signals"]] == ["2", "3", "4", "5", "6", "7"]
    assert (await since(client, first - 1, "other"))["signals"][0]["index"] == first
    assert used(client) <= 64 * KIB


async def test_ended_operations_make_room_before_signals(client):
    for number in range(3):
        await client.signal("k", value=attachment(9) + str(number))
    for number in range(5):
        await client.submit("a", id=f"op{number}", data=attachment(8))
        await client.request("DELETE", f"/v1/operations/op{number}")
    states = [(await client.request("GET", f"/v1/operations/op{number}")).status for number in range(5)]
    assert states == [410, 200, 200, 200, 200]
    assert len((await since(client, 0))["signals"]) == 3


async def test_a_queue_may_use_a_quarter_of_the_budget(client):
    for _ in range(3):
        assert (await put(client, attachment(5))).status == 201
    reply = await put(client, attachment(1))
    assert (reply.status, reply.json["queue"], reply.json["limit"]) == (503, "q", 16 * KIB)
    assert (await put(client, attachment(5), "another")).status == 201
    await client.request("PUT", "/v1/queues/q", {"max_bytes": None})
    assert (await put(client, attachment(1))).status == 201


async def test_metrics_show_what_is_used_of_the_budget(client):
    await client.submit("a", data=attachment(5))
    text = (await client.request("GET", "/metrics")).body.decode()
    assert 'purgatory_limit{limit="max_bytes"} 65536.0' in text
    kept, event = 128 + 1 + 5 * KIB + 2, 128 + 1
    assert f'purgatory_used{{limit="max_bytes"}} {float(kept + event)}' in text


async def test_the_feed_takes_what_the_state_has_left(client):
    for number in range(100):
        await client.signal(f"key{number % 7}")
    before = client.service.held.feed.size
    await fill(client)
    assert 128 < client.service.held.feed.size < before / 10  # the newest at least
    first, _ = client.service.held.feed.read(0)
    assert b"event: gap" in first.partition(b"\n\n")[0]


async def test_what_held_waits_have_heard_is_bounded(client):
    """Their signals count apart: the state may have dropped them. Voters do too."""
    other = await client.held("GET", "/v1/wait?key=other&wait=50s")
    for vote in ({"voter": "v", "value": attachment(9)}, {"voter": "v" * 500}):
        waiting = await client.held("GET", "/v1/wait?key=k&need=voters:1000&wait=50s")
        for number in range(8 if "value" in vote else 150):
            await client.signal("k", **vote | {"voter": f"{vote['voter']}{number}"})
        assert (waiting.status, waiting.slug, waiting.json["budget"]) == (503, "overloaded", "max_bytes")
        assert client.service.waits.heard == 0
    await client.signal("other")
    assert other.status == 200

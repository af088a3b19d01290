"""``/v1/wait``, clients that leave, limits, and draining: held requests end, and nothing stays."""

import pytest

from purgatory_async.testing import settle
from tests.service.wire import request

pytestmark = pytest.mark.asyncio


async def test_a_one_shot_wait_ends_with_its_signals(client):
    held = await client.held("GET", "/v1/wait?key=a&key=b&need=all&wait=9")
    assert (await client.signal("b", value=1))["completed"] == 0
    assert (await client.signal("a", voter="v"))["completed"] == 1
    assert held.status == 200
    assert held.json == {
        "signals": [{"key": "b", "index": 1, "value": 1}, {"key": "a", "index": 2, "voter": "v"}]
    }


@pytest.mark.parametrize("need", ["amount:2", "voters:2"])
async def test_a_one_shot_wait_can_count(client, need):
    held = await client.held("GET", f"/v1/wait?key=a&need={need}&wait=9")
    await client.signal("a", voter="x")
    assert not held.answered
    await client.signal("a", voter="y")
    assert held.status == 200


async def test_a_one_shot_wait_that_ends_empty_is_204(client):
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    await client.advance(9.001)
    assert (held.status, held.body) == (204, b"")
    assert "content-length" not in held.headers
    assert client.service.metrics.ended["expired"] == 1
    assert (await client.request("GET", "/v1/wait?key=a")).status == 204


async def test_a_client_that_leaves_takes_its_one_shot_wait_with_it(client):
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    assert (client.service.pending, client.service.held.requests.count) == (1, 1)
    held.hang_up()
    await settle()
    assert held.over.done()
    assert not held.answered
    assert (client.service.pending, client.service.held.requests.count) == (0, 0)
    assert (await client.signal("a"))["completed"] == 0


async def test_an_operation_outlives_the_client_that_submitted_it(client):
    held = await client.held("POST", "/v1/operations?wait=9", {"keys": ["a"], "id": "op"})
    poll = await client.held("GET", "/v1/operations/op?wait=9")
    held.hang_up()
    await settle()
    assert client.service.held.requests.count == 1
    await client.signal("a")
    assert poll.json["state"] == "completed"


async def test_a_client_that_leaves_frees_its_read(client):
    held = await client.held("GET", "/v1/keys/a?index=0&wait=9")
    held.hang_up()
    await settle()
    assert client.service.held.requests.count == 0


async def test_an_answer_to_a_client_that_just_left_is_undelivered(client):
    wired = client.server
    waiting, signalling = wired.link(), wired.link()
    await waiting.send(request("/v1/wait?key=a&wait=9"))
    signalling.protocol.data_received(request("/v1/keys/a/signal", "POST"))
    await waiting.hang_up()
    assert signalling.reply.json["completed"] == 1
    assert not waiting.pipe.written
    assert client.service.metrics.undelivered == 1
    assert client.service.held.requests.count == 0


@pytest.mark.parametrize(
    "target", ["/v1/wait?key=a&wait=9", "/v1/wait?prefix=a&since=0&wait=9", "/v1/keys/a?index=0&wait=9"]
)
async def test_a_cancelled_request_leaves_nothing(client, target):
    held = await client.held("GET", target)
    held.cancel()
    await settle()
    assert (client.service.pending, client.service.held.requests.count) == (0, 0)


async def test_operations_and_one_shot_waits_have_the_same_limit(make_client):
    client = make_client(max_pending=1)
    await client.submit("a", id="op")
    held = await client.held("GET", "/v1/wait?key=a&wait=9")
    for method, target, body in [
        ("POST", "/v1/operations", {"keys": ["a"]}),
        ("POST", "/v1/operations?wait=5", {"keys": ["a"]}),
        ("GET", "/v1/wait?key=a&wait=9", None),
    ]:
        refused = await client.request(method, target, body)
        assert (refused.status, refused.slug, refused.json["limit"]) == (503, "overloaded", 1)
        assert 1 <= int(refused.headers["retry-after"]) <= 10
    assert client.service.pending == 2
    await client.signal("a")
    assert held.status == 200
    await client.submit("a")


async def test_held_requests_have_the_same_limit(make_client):
    client = make_client(max_pending=1)
    held = await client.held("GET", "/v1/keys/a?index=0&wait=9")
    for method, target, body in [
        ("GET", "/v1/keys/a?index=0&wait=9", None),
        ("GET", "/v1/wait?key=a&wait=9", None),
        ("POST", "/v1/operations?wait=5", {"keys": ["a"]}),
    ]:
        refused = await client.request(method, target, body)
        assert (refused.status, refused.slug) == (503, "overloaded")
    assert client.service.pending == 0
    await client.signal("a")
    assert held.answered


async def test_draining_answers_every_held_request_and_continues(client):
    await client.submit("a", id="op")
    held = [
        await client.held("POST", "/v1/operations?wait=9", {"keys": ["a"], "id": "second"}),
        await client.held("GET", "/v1/operations/op?wait=9"),
        await client.held("GET", "/v1/wait?key=a&wait=9"),
        await client.held("GET", "/v1/keys/a?index=0&wait=9"),
    ]
    assert client.service.drain() == 4
    await settle()
    assert [(reply.status, reply.slug) for reply in held] == [(503, "draining")] * 4
    assert all(reply.headers["connection"] == "close" for reply in held)
    assert client.service.pending == 2
    for method, target, body in [
        ("POST", "/v1/operations", {"keys": ["a"]}),
        ("GET", "/v1/operations/op?wait=9", None),
        ("GET", "/v1/wait?key=a", None),
        ("GET", "/v1/keys/a?index=0&wait=9", None),
        ("GET", "/readyz", None),
    ]:
        refused = await client.request(method, target, body)
        assert (refused.status, refused.slug) == (503, "draining")
    assert (await client.request("GET", "/v1/operations/op")).json["state"] == "pending"
    assert (await client.signal("a"))["completed"] == 2
    assert (await client.request("GET", "/v1/operations/op?wait=9")).json["state"] == "completed"
    assert (await client.request("GET", "/healthz")).json == {"status": "ok"}


async def test_refused_clients_retry_spread_over_ten_seconds(client):
    client.service.drain()
    replies = [await client.request("GET", "/v1/wait?key=a&wait=9") for _ in range(20)]
    assert sorted(int(reply.headers["retry-after"]) for reply in replies) == sorted([*range(1, 11)] * 2)

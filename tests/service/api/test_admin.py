"""``POST /v1/admin/drain``: as SIGTERM, but the process goes on: held requests end, all else still works."""

import pytest

from purgatory_async.durable.grants import Permission
from purgatory_async.durable.state import Guard
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.service.held import stream
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

JSON = ("content-type", "application/json")
DRAIN = "/v1/admin/drain"
JOBS = "/v1/queues/jobs"


async def drain(client):
    reply = await client.request("POST", DRAIN)
    assert reply.status == 202
    return reply.json


async def everybody_who_waits(client):
    """One held request of each kind, on things that never come."""
    await client.submit("never", id="op")
    return [
        await client.held(method, target, body)
        for method, target, body in [
            ("POST", "/v1/operations?wait=30s", {"keys": ["never"]}),
            ("GET", "/v1/operations/op?wait=30s", None),
            ("GET", "/v1/keys/never?index=0&wait=30s", None),
            ("GET", "/v1/wait?key=never&wait=30s", None),
            ("POST", "/v1/queues/empty/take?wait=30s", {}),
        ]
    ]


async def test_a_drain_lets_every_held_request_go_and_says_how_many(client):
    held = await everybody_who_waits(client)
    reader = await client.held("GET", "/v1/events")
    assert await drain(client) == {"released": 6, "pending": 2}
    assert [(request.status, request.slug) for request in held] == [(503, "draining")] * 5
    assert all("retry-after" in request.headers for request in held)
    await client.advance(stream.PAUSE)
    assert reader.answered


async def test_draining_again_changes_nothing(client):
    await everybody_who_waits(client)
    await drain(client)
    for _ in range(2):
        assert await drain(client) == {"released": 0, "pending": 2}


async def test_operations_outlive_the_drain_and_signals_reach_them(client):
    await client.submit("a", id="signalled")
    await client.submit("b", id="completed")
    await client.submit("c", id="cancelled")
    await client.submit("d", id="expired", timeout="5s")
    await drain(client)
    assert (await client.signal("a"))["completed"] == 1
    await client.request("POST", "/v1/operations/completed/complete", {"result": 1})
    await client.request("DELETE", "/v1/operations/cancelled")
    await client.advance(5)
    states = {
        name: (await client.request("GET", f"/v1/operations/{name}")).json["state"]
        for name in ("signalled", "completed", "cancelled", "expired")
    }
    assert states == {
        "signalled": "completed",
        "completed": "completed",
        "cancelled": "cancelled",
        "expired": "expired",
    }


async def test_what_was_taken_can_be_acknowledged_and_returned(client):
    for item in (1, 2):
        await client.request("POST", f"{JOBS}/items", {"item": item})
    first, second = [(await client.request("POST", f"{JOBS}/take", {})).json["lease"] for _ in range(2)]
    await drain(client)
    assert (await client.request("POST", f"/v1/leases/{first}/ack")).status == 204
    assert (await client.request("POST", f"/v1/leases/{second}/return")).status == 204


@pytest.mark.parametrize(
    "target",
    ["/v1/operations", "/v1/operations/op", "/v1/keys/a", "/v1/admin/stats", "/metrics", "/healthz"],
)
async def test_reading_goes_on(client, target):
    await client.submit("a", id="op")
    await drain(client)
    assert (await client.request("GET", target)).status == 200


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/operations", {"keys": ["a"]}),
        ("GET", "/v1/wait?key=a&wait=3s", None),
        ("GET", "/v1/keys/a?index=0&wait=3s", None),
        ("GET", "/v1/operations/op?wait=3s", None),
        ("POST", f"{JOBS}/take?wait=3s", {}),
        ("POST", f"{JOBS}/items", {"item": 1}),
        ("GET", "/v1/events", None),
        ("GET", "/readyz", None),
    ],
)
async def test_nothing_new_is_taken_that_waits(client, method, target, body):
    await client.submit("a", id="op")
    await drain(client)
    reply = await client.request(method, target, body)
    assert (reply.status, reply.slug) == (503, "draining")
    assert "retry-after" in reply.headers


async def test_a_drain_delay_ends_readiness_at_once_and_waits_later(make_client):
    client = make_client(drain_delay="5s")
    held = await everybody_who_waits(client)
    assert await drain(client) == {"released": 5, "pending": 2}
    unready = await client.request("GET", "/readyz")
    assert (unready.status, unready.slug, unready.json["reasons"]) == (503, "draining", ["draining"])
    await client.advance(4)
    assert not any(request.answered for request in held)
    timers = client.service.timer.pending
    assert await drain(client) == {"released": 5, "pending": 2}
    assert client.service.timer.pending == timers
    await client.advance(1)
    assert all(request.slug == "draining" for request in held)
    assert await drain(client) == {"released": 0, "pending": 2}


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/v1/operations", {"keys": ["a"]}, 202),
        ("POST", "/v1/operations?wait=3s", {"keys": ["a"]}, None),
        ("GET", "/v1/wait?key=a&wait=3s", None, None),
        ("GET", "/v1/keys/a?index=0&wait=3s", None, None),
        ("GET", "/v1/operations/op?wait=3s", None, None),
        ("POST", f"{JOBS}/take?wait=3s", {}, None),
        ("POST", f"{JOBS}/items", {"item": 1}, 201),
        ("GET", "/v1/events", None, None),
    ],
)
async def test_until_the_delay_is_over_everything_new_is_taken(make_client, method, target, body, status):
    client = make_client(drain_delay="5s")
    await client.submit("a", id="op")
    await drain(client)
    assert (await client.request("GET", "/v1/admin/stats")).json["draining"] is False
    if status is None:
        held = await client.held(method, target, body)
    else:
        assert (await client.request(method, target, body)).status == status
    await client.advance(5)
    assert status or held.answered or target == "/v1/events"
    assert (await client.request("GET", "/v1/admin/stats")).json["draining"] is True
    assert (await client.request(method, target, body)).slug == "draining"
    await client.advance(stream.PAUSE)


@pytest.mark.parametrize(
    ("body", "slug"),
    [({"force": True}, "invalid"), (b"{", "malformed"), (b"[]", "invalid"), (b"1", "invalid")],
)
async def test_a_body_with_content_is_refused_and_nothing_drains(client, body, slug):
    reply = await client.request("POST", DRAIN, body, [JSON] if isinstance(body, bytes) else [])
    assert reply.slug == slug
    assert not client.service.draining


async def test_an_empty_object_says_nothing(client):
    assert (await client.request("POST", DRAIN, {})).status == 202


async def test_it_takes_no_parameters(client):
    assert (await client.request("POST", DRAIN + "?now=1")).slug == "bad-parameter"
    assert (await client.request("POST", DRAIN, headers=[("accept", "text/plain")])).slug == "not-acceptable"
    assert not client.service.draining


async def test_only_administrators_may(client):
    assert {
        (path, method): endpoint.permission
        for path in (DRAIN, "/v1/admin/stats")
        for method, endpoint in ROUTES[path].items()
    } == {
        (DRAIN, "POST"): Permission.ADMIN,
        ("/v1/admin/stats", "GET"): Permission.ADMIN,
        ("/v1/admin/stats", "HEAD"): Permission.ADMIN,
    }


async def test_a_request_in_the_pass_of_the_drain_is_answered(client):
    requests = [client.start("GET", "/v1/wait?key=a&wait=3s") for _ in range(5)]
    client.service.begin_drain(Guard())
    requests += [client.start("GET", "/v1/wait?key=a&wait=3s") for _ in range(5)]
    await settle()
    assert {request.slug for request in requests} == {"draining"}

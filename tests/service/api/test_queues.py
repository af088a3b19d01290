"""``/v1/queues`` and ``/v1/leases``: each item goes to exactly one taker, on lease, and none to a client that left."""

import asyncio

import pytest
from msgspec import Raw

from purgatory_async.durable.fold.entries import PutItem
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

JOBS = "/v1/queues/jobs"


async def put(client, item, queue=JOBS):
    reply = await client.request("POST", f"{queue}/items", {"item": item})
    assert reply.status == 201
    return reply.json["delivered"]


async def take(client, **body):
    reply = await client.request("POST", f"{JOBS}/take", body)
    assert reply.status == 200
    return reply.json


async def nothing_to_take(client):
    exchange = client.start("POST", f"{JOBS}/take")
    await settle()
    await client.advance(0)
    return exchange.status == 204


async def test_items_are_kept_in_order_until_they_are_taken(client):
    assert [await put(client, item) for item in ("first", "second")] == [False, False]
    assert [(await take(client))["item"] for _ in range(2)] == ["first", "second"]
    assert await nothing_to_take(client)


async def test_an_item_goes_to_the_oldest_taker(client):
    older, newer = [await client.held("POST", f"{JOBS}/take?wait=30s") for _ in range(2)]
    assert await put(client, "item") is True
    await settle()
    assert (older.status, older.json["item"]) == (200, "item")
    assert not newer.answered
    assert await put(client, "another") is True
    await settle()
    assert newer.json["item"] == "another"


async def test_an_empty_take_answers_204_after_its_wait(client):
    taker = await client.held("POST", f"{JOBS}/take?wait=5s")
    await client.advance(5)
    assert (taker.status, taker.body) == (204, b"")


async def test_a_wait_that_prefer_asked_for_says_what_was_applied(client):
    await put(client, 1)
    reply = await client.request("POST", f"{JOBS}/take", headers=[("prefer", "wait=900")])
    assert reply.headers["preference-applied"] == "wait=55"


async def test_a_lease_that_runs_out_puts_its_item_in_front(client):
    await put(client, "first")
    await put(client, "second")
    lease = await take(client, lease="10s")
    assert lease["expires_in"] == 10.0
    await client.advance(10)
    assert (await take(client))["item"] == "first"
    assert (await client.request("POST", f"/v1/leases/{lease['lease']}/ack")).slug == "lease-expired"


async def test_a_lease_that_runs_out_serves_a_waiting_taker(client):
    await put(client, "item")
    await take(client, lease="10s")
    taker = await client.held("POST", f"{JOBS}/take?wait=55s")
    await client.advance(10)
    assert taker.json["item"] == "item"


async def test_an_acknowledged_item_never_comes_back(client):
    await put(client, "item")
    lease = (await take(client, lease=1))["lease"]
    assert (await client.request("POST", f"/v1/leases/{lease}/ack")).status == 204
    await client.advance(2)
    assert await nothing_to_take(client)


async def test_a_returned_item_is_in_front_again_at_once(client):
    await put(client, "first")
    await put(client, "second")
    lease = (await take(client))["lease"]
    assert (await client.request("POST", f"/v1/leases/{lease}/return")).status == 204
    assert (await take(client))["item"] == "first"


@pytest.mark.parametrize("first", ["ack", "return"])
@pytest.mark.parametrize("second", ["ack", "return"])
async def test_a_lease_ends_once_and_is_forgotten_after_retention(make_client, first, second):
    client = make_client(retention=60)
    await put(client, "item")
    lease = (await take(client))["lease"]
    await client.request("POST", f"/v1/leases/{lease}/{first}")
    again = await client.request("POST", f"/v1/leases/{lease}/{second}")
    assert (again.status, again.slug) == (410, "lease-expired")
    await client.advance(60)
    late = await client.request("POST", f"/v1/leases/{lease}/{second}")
    assert (late.status, late.slug) == (404, "unknown-lease")


@pytest.mark.parametrize("lease", ["nobody", "%ff", "%", "a%2Fb"])
async def test_a_lease_that_was_never_given_out_is_unknown(client, lease):
    assert (await client.request("POST", f"/v1/leases/{lease}/ack")).slug == "unknown-lease"


async def test_a_taker_that_left_gets_nothing(client):
    gone = await client.held("POST", f"{JOBS}/take?wait=30s")
    gone.hang_up()
    await settle()
    assert len(client.service.fold.queues.takers) == 0
    assert await put(client, "item") is False
    assert (await take(client))["item"] == "item"


@pytest.mark.parametrize("passes", range(4))
async def test_what_a_client_that_leaves_was_given_goes_to_the_next(client, passes):
    """At once, if the loop knew that it left; else the answer was on its way, and the lease brings it back."""
    gone = await client.held("POST", f"{JOBS}/take?wait=30s")
    client.post(PutItem(queue="jobs", item=Raw(b'"item"'), delay_us=0))
    for _ in range(passes):
        await asyncio.sleep(0)
    gone.hang_up()
    await settle()
    await put(client, "behind")
    if gone.answered:
        await client.advance(30)
    assert (await take(client))["item"] == "item"
    assert len(client.service.fold.queues.leases) == 1


async def test_a_client_that_left_before_its_item_gets_nothing(client):
    gone = await client.held("POST", f"{JOBS}/take?wait=30s")
    gone.hang_up()
    client.post(PutItem(queue="jobs", item=Raw(b'"item"'), delay_us=0))
    await settle()
    assert not gone.answered
    assert (await take(client))["item"] == "item"


async def test_a_full_queue_refuses_no_other_queues_items(make_client):
    client = make_client(max_items=2)
    await put(client, 1)
    lease = (await take(client))["lease"]
    await put(client, 2)
    refused = await client.request("POST", f"{JOBS}/items", {"item": 3})
    assert (refused.status, refused.slug) == (503, "overloaded")
    assert (refused.json["limit"], refused.json["queue"]) == (2, "jobs")
    assert await put(client, 4, "/v1/queues/other") is False
    await client.request("POST", f"/v1/leases/{lease}/ack")
    assert await put(client, 3) is False


async def test_more_takers_than_may_wait_are_refused(make_client):
    client = make_client(max_pending=1)
    taker = await client.held("POST", f"{JOBS}/take?wait=30s")
    refused = await client.request("POST", f"{JOBS}/take?wait=30s")
    assert (refused.status, refused.slug) == (503, "overloaded")
    assert "retry-after" in refused.headers
    taker.hang_up()
    await settle()


async def test_a_drain_lets_takers_go_and_leases_end_as_they_would(client):
    await put(client, "item")
    lease = (await take(client))["lease"]
    taker = await client.held("POST", f"{JOBS}/take?wait=30s")
    assert client.service.drain() == 1
    await settle()
    assert (taker.status, taker.slug) == (503, "draining")
    assert (await client.request("POST", f"{JOBS}/items", {"item": 1})).slug == "draining"
    assert (await client.request("POST", f"/v1/leases/{lease}/return")).status == 204


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"lease": 0}, "/lease"),
        ({"lease": "0s"}, "/lease"),
        ({"lease": -1}, "/lease"),
        ({"lease": "1w"}, "/lease"),
        ({"lease": 4e9}, "/lease"),
        ({"lease": True}, "/lease"),
        ({"lease": None}, "/lease"),
        ({"leese": 1}, "/leese"),
    ],
)
async def test_a_bad_lease_is_refused_and_takes_nothing(client, body, pointer):
    await put(client, "item")
    refused = await client.request("POST", f"{JOBS}/take", body)
    assert (refused.status, refused.slug) == (422, "invalid")
    assert refused.json["errors"][0]["pointer"] == pointer
    assert (await take(client))["item"] == "item"


@pytest.mark.parametrize(
    "body",
    [{}, {"item": 1, "more": 2}, {"items": []}, {"item": 1, "items": [{"item": 1}]}, {"items": [1] * 101}],
)
async def test_a_bad_item_is_refused_and_kept_nowhere(client, body):
    refused = await client.request("POST", f"{JOBS}/items", body)
    assert (refused.status, refused.slug) == (422, "invalid")
    assert client.service.fold.queues.kept == 0


@pytest.mark.parametrize("item", [None, False, 0, "", [], {"a": [1.5, "\u00e9"]}])
async def test_any_json_is_an_item(client, item):
    await put(client, item)
    assert (await take(client))["item"] == item


@pytest.mark.parametrize("queue", ["", ".", "..", "%00", "%ff", "x" * 513])
async def test_a_queue_is_named_as_a_key_is(client, queue):
    refused = await client.request("POST", f"/v1/queues/{queue}/items", {"item": 1})
    assert (refused.status, refused.slug) == (422, "bad-key")


async def test_a_slash_in_a_name_belongs_to_it(client):
    await put(client, 1, "/v1/queues/a%2Fb")
    assert (await client.request("POST", "/v1/queues/a%2Fb/take")).json["item"] == 1

"""``take`` with an Idempotency-Key: a lost answer loses no lease, and a take that is sent twice takes once."""

import pytest
from msgspec import Raw

from purgatory_async.durable.fold.entries import PutItem
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

JOBS = "/v1/queues/jobs"
KEY = ("idempotency-key", "k")


async def put(client, *items):
    for item in items:
        await client.request("POST", f"{JOBS}/items", {"item": item})


async def take(client, *, query="", queue=JOBS, **body):
    return await client.request("POST", f"{queue}/take{query}", body, [KEY])


async def held(client, query="?wait=30s", **body):
    return await client.held("POST", f"{JOBS}/take{query}", body, [KEY])


def told(reply):
    return reply.status, reply.json["lease"], reply.headers.get("idempotency-replayed")


async def test_a_repeated_take_gets_the_same_lease_while_it_lasts(client):
    await put(client, "first", "second")
    first = await take(client, lease="10s")
    await client.advance(4)
    again = await take(client, lease="10s", query="?wait=5s")
    assert told(first) == (200, first.json["lease"], None)
    assert told(again) == (200, first.json["lease"], "true")
    assert again.json == {**first.json, "expires_in": 6.0}
    await client.advance(6)
    anew = await take(client, lease="10s")
    assert (anew.json["item"], anew.json["attempts"]) == ("first", 2)
    assert told(anew) == (200, anew.json["lease"], None)
    assert anew.json["lease"] != first.json["lease"]


@pytest.mark.parametrize("verb", ["ack", "return"])
async def test_the_key_of_a_lease_that_ended_takes_anew(client, verb):
    await put(client, "first", "second")
    lease = (await take(client)).json["lease"]
    await client.request("POST", f"/v1/leases/{lease}/{verb}")
    anew = await take(client)
    assert anew.json["item"] == ("second" if verb == "ack" else "first")
    assert told(anew) == (200, anew.json["lease"], None)


async def test_an_extended_lease_is_still_the_same(client):
    await put(client, 1, 2)
    lease = (await take(client, lease=1)).json["lease"]
    await client.request("POST", f"/v1/leases/{lease}/extend", {"lease": 60})
    await client.advance(50)
    again = await take(client, lease=1)
    assert (again.json["lease"], again.json["expires_in"]) == (lease, 10.0)
    await client.request("POST", f"/v1/leases/{lease}/ack")
    assert (await take(client, lease=1)).json["item"] == 2


async def test_a_take_joins_the_one_that_is_held(client):
    first, second = await held(client), await held(client, "?wait=50s")
    await put(client, "one", "two")
    await settle()
    lease = first.json["lease"]
    assert told(first) == (200, lease, None)
    assert told(second) == (200, lease, "true")
    assert client.service.fold.queues.by_name["jobs"].leased == 1


async def test_a_joined_take_ends_after_its_own_wait(client):
    first = await held(client, "?wait=5s")
    second = await held(client, "?wait=20s")
    assert (await take(client)).status == 204
    await client.advance(5)
    assert first.status == 204
    assert not second.answered
    await put(client, "item")
    await settle()
    assert told(second) == (200, second.json["lease"], None)


async def test_a_client_that_left_takes_the_lease_from_no_other(client):
    first, second = await held(client), await held(client)
    first.hang_up()
    client.post(PutItem(queue="jobs", item=Raw(b'"item"'), delay_us=0))  # before that is noticed
    await settle()
    assert not first.answered
    lease = second.json["lease"]
    assert client.service.fold.queues.by_name["jobs"].leased == 1
    assert (await client.request("POST", f"/v1/leases/{lease}/ack")).status == 204


async def test_without_another_request_the_item_goes_back_at_once(client):
    first = await held(client)
    first.hang_up()
    client.post(PutItem(queue="jobs", item=Raw(b'"item"'), delay_us=0))
    await settle()
    assert not first.answered
    assert not client.service.fold.queues.leases.takes
    assert (await client.request("POST", f"{JOBS}/take")).json["attempts"] == 1


async def test_a_batch_is_repeated_with_what_is_left_of_it(client):
    await put(client, 1, 2, 3, 4)
    first = await take(client, max=3)
    again = await take(client, max=3)
    leases = first.json["leases"]
    assert again.json["leases"] == leases
    assert again.headers["idempotency-replayed"] == "true"
    for each in leases[:2]:
        await client.request("POST", f"/v1/leases/{each['lease']}/ack")
    assert (await take(client, max=3)).json["leases"] == leases[2:]
    await client.request("POST", f"/v1/leases/{leases[2]['lease']}/ack")
    assert [each["item"] for each in (await take(client, max=3)).json["leases"]] == [4]


async def test_items_that_come_back_at_once_are_one_to_a_key(client):
    await put(client, 1, 2)
    await client.request("POST", f"{JOBS}/take", {"max": 2, "lease": 5})
    first, second = await held(client), await held(client)
    await client.advance(5)
    assert (first.json["item"], second.json["item"]) == (1, 1)
    assert client.service.fold.queues.by_name["jobs"].leased == 1


async def test_takes_of_a_batch_join_as_well(client):
    first, second = await held(client, max=2), await held(client, max=2)
    await client.request("POST", f"{JOBS}/items", {"items": [{"item": 1}, {"item": 2}, {"item": 3}]})
    await settle()
    assert [each["item"] for each in first.json["leases"]] == [1, 2]
    assert second.json == first.json


@pytest.mark.parametrize(
    ("queue", "body"),
    [(JOBS, {"lease": 31}), (JOBS, {"max": 2}), ("/v1/queues/others", {"lease": 30})],
    ids=["another lease", "another number", "another queue"],
)
@pytest.mark.parametrize("waiting", [True, False])
async def test_the_key_of_another_take_is_a_mismatch(client, queue, body, waiting):
    if not waiting:
        await put(client, 1)
    first = await (held if waiting else take)(client, lease=30)
    refused = await take(client, queue=queue, **body)
    assert (refused.status, refused.slug) == (422, "idempotency-mismatch")
    first.hang_up()


async def test_wait_and_spelling_make_no_other_take(client):
    await put(client, 1)
    lease = (await take(client, lease=60)).json["lease"]
    for body in ({"lease": "1m"}, {"lease": "60s", "max": 1}):
        reply = await take(client, query="?wait=1s", **body)
        assert reply.headers["idempotency-replayed"] == "true"
        assert lease in {reply.json.get("lease"), reply.json.get("leases", [{}])[0].get("lease")}


async def test_one_key_is_one_request_whatever_it_asks(client):
    await put(client, 1)
    lease = (await take(client)).json["lease"]
    others = [
        ("/v1/keys/a/signal", {}),
        ("/v1/signals", {"signals": [{"key": "a"}]}),
        ("/v1/operations", {"keys": ["a"]}),
        (f"{JOBS}/items", {"item": 1}),
    ]
    for target, body in others:
        refused = await client.request("POST", target, body, [KEY])
        assert (refused.status, refused.slug) == (422, "idempotency-mismatch"), target
    await client.request("POST", f"/v1/leases/{lease}/ack")
    assert (await client.request("POST", "/v1/keys/a/signal", {}, [KEY])).status == 200
    refused = await take(client)
    assert (refused.status, refused.slug) == (422, "idempotency-mismatch")


async def test_an_empty_take_remembers_nothing(client):
    assert (await take(client)).status == 204
    assert not client.service.fold.queues.leases.takes
    assert (await client.request("POST", "/v1/keys/a/signal", {}, [KEY])).status == 200


async def test_keys_of_takes_are_counted_while_their_leases_last(client):
    before = client.service.fold.shared.kept.pinned
    await put(client, 1, 2)
    first, second = (await take(client, max=2)).json["leases"]
    plain = before + len("jobs") + 2 * 128 + 1
    await client.request("POST", f"/v1/leases/{first['lease']}/ack")
    assert client.service.fold.shared.kept.pinned == plain + 128 + len("k") + 64
    await client.request("POST", f"/v1/leases/{second['lease']}/ack")
    assert client.service.fold.shared.kept.pinned == before


async def test_a_refused_take_writes_nothing(client):
    await put(client, 1, 2)
    await take(client)
    position = client.service.fold.position
    assert (await take(client, lease=1)).status == 422
    assert client.service.fold.position == position + 1

"""Items that are put later, come back, are counted, and go to the dead ones and back."""

import asyncio

import pytest
from msgspec import Raw

from purgatory_async.durable.fold.entries import PutItem
from purgatory_async.durable.verbs import queues
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

JOBS, DEAD = "/v1/queues/jobs", "/v1/queues/jobs.dead"


async def ask(client, method, target, body=None, *, status=200):
    reply = await client.request(method, target, body)
    assert reply.status == status, (reply.status, reply.body)
    return reply.json if reply.body else None


async def put(client, item, queue=JOBS, **more):
    return await ask(client, "POST", f"{queue}/items", {"item": item, **more}, status=201)


async def take(client, queue=JOBS, **body):
    return await ask(client, "POST", f"{queue}/take", body)


async def end(client, lease, how, body=None):
    await ask(client, "POST", f"/v1/leases/{lease['lease']}/{how}", body, status=204)


async def in_line(client, queue=JOBS, query=""):
    """What will be taken, in its order."""
    found = await ask(client, "GET", f"{queue}/items{query}")
    return [each["item"] for each in found["items"]]


async def test_a_delayed_item_is_taken_only_when_it_is_due(client):
    put_now = await put(client, "later", delay="5s")
    assert put_now["delivered"] is False
    taker = await client.held("POST", f"{JOBS}/take?wait=30s")
    await client.advance(4.999)
    assert not taker.answered
    await client.advance(0.001)
    assert (taker.json["item"], taker.json["id"]) == ("later", put_now["id"])


async def test_places_are_by_the_time_an_item_was_first_due(client):
    await put(client, "late", delay=2)
    await client.advance(1)
    await put(client, "early")
    await client.advance(1)
    await put(client, "last")
    assert await in_line(client) == ["early", "late", "last"]


async def test_attempts_count_hand_outs(client):
    await put(client, "item")
    assert (await ask(client, "GET", f"{JOBS}/items"))["items"][0]["attempts"] == 0
    for attempt in (1, 2):
        lease = await take(client)
        assert lease["attempts"] == attempt
        await end(client, lease, "return")


async def test_an_item_given_to_a_client_that_left_is_no_attempt(client):
    await ask(client, "PUT", JOBS, {"max_attempts": 1})
    gone = await client.held("POST", f"{JOBS}/take?wait=30s")
    gone.hang_up()
    client.post(PutItem(queue="jobs", item=Raw(b'"item"'), delay_us=0))
    assert len(client.service.fold.queues.leases) == 1  # the loop does not know yet
    await settle()
    assert not gone.answered
    assert (await take(client))["attempts"] == 1


async def test_a_return_with_a_delay_hides_the_item_in_its_place(client):
    for item in ("first", "second", "third"):
        await put(client, item)
    await end(client, await take(client), "return", {"delay": "3s"})
    assert await in_line(client) == ["second", "third"]
    assert await in_line(client, query="?delayed=1") == ["first"]
    await client.advance(3)
    assert await in_line(client) == ["first", "second", "third"]


@pytest.mark.parametrize("how", ["return", "lease over"])
async def test_an_item_that_comes_back_too_often_is_dead(client, how):
    shown = await ask(client, "PUT", JOBS, {"max_attempts": 2, "lease": "10s"})
    assert (shown["max_attempts"], shown["lease"], shown["dead"]) == (2, 10.0, "jobs.dead")
    item = await put(client, "item")
    for attempt in (1, 2):
        lease = await take(client)
        assert (lease["attempts"], lease["expires_in"]) == (attempt, 10.0)
        if how == "return":
            await end(client, lease, "return")
        else:
            await client.advance(10)
    assert await in_line(client) == []
    dead = await take(client, DEAD)
    assert (dead["item"], dead["id"], dead["attempts"]) == ("item", item["id"], 3)
    assert client.service.fold.queues.dead == 1


async def test_dead_items_come_back_behind_those_that_wait(client):
    await ask(client, "PUT", JOBS, {"max_attempts": 1})
    for item in ("a", "b", "c"):
        await put(client, item)
        await end(client, await take(client), "return")
    await put(client, "waiting")
    assert await in_line(client, DEAD) == ["a", "b", "c"]
    assert await ask(client, "POST", f"{JOBS}/redrive", {"max": 2}) == {"moved": 2}
    assert await in_line(client) == ["waiting", "a", "b"]
    assert [(await take(client))["attempts"] for _ in range(3)] == [1, 1, 1]
    assert await ask(client, "POST", f"{JOBS}/redrive") == {"moved": 1}
    assert await ask(client, "POST", f"{JOBS}/redrive") == {"moved": 0}


async def test_a_redrive_of_many_items_goes_in_several_steps(client, monkeypatch):
    monkeypatch.setattr(queues, "REDRIVEN", 2)
    for number in range(9):
        await put(client, number, DEAD)
    before = client.service.fold.position
    assert await ask(client, "POST", f"{JOBS}/redrive", {"max": 3}) == {"moved": 3}
    assert client.service.fold.position == before + 2
    begun = client.service.fold.position
    redriving, passes, late = client.start("POST", f"{JOBS}/redrive"), 0, False
    while not redriving.answered:
        await asyncio.sleep(0)
        passes += 1
        if (
            not late and client.service.fold.position > begun
        ):  # it died after the request: another brings it back
            late = True
            client.post(PutItem(queue="jobs.dead", item=Raw(b'"late"'), delay_us=0))
    assert redriving.json == {"moved": 6}
    assert passes >= 6 / 2
    assert await in_line(client) == list(range(9))
    assert await in_line(client, DEAD) == ["late"]


async def test_a_redrive_serves_the_takers_in_line(client):
    await ask(client, "PUT", JOBS, {"max_attempts": 1})
    await put(client, "item")
    await end(client, await take(client), "return")
    taker = await client.held("POST", f"{JOBS}/take?wait=30s")
    await ask(client, "POST", f"{JOBS}/redrive")
    assert taker.json["item"] == "item"


async def test_no_limit_refuses_a_dead_item(client):
    await ask(client, "PUT", JOBS, {"max_attempts": 1})
    await ask(client, "PUT", DEAD, {"max_items": 1})
    for item in range(2):
        await put(client, item)
        await end(client, await take(client), "return")
    assert await in_line(client, DEAD) == [0, 1]


async def test_bytes_of_a_queue_are_texts_and_128_a_piece(client):
    await ask(client, "PUT", JOBS, {"max_bytes": 300})
    await put(client, "1234")
    assert (await ask(client, "GET", JOBS))["bytes"] == 6 + 128
    lease = await take(client)
    assert (await ask(client, "GET", JOBS))["bytes"] == 6 + 128 + 128
    refused = await client.request("POST", f"{JOBS}/items", {"item": 1})
    assert (refused.status, refused.slug, refused.json["queue"]) == (503, "overloaded", "jobs")
    assert "300 bytes" in refused.json["detail"]
    await end(client, lease, "ack")
    await put(client, 1)


@pytest.mark.parametrize(
    ("queue", "body", "pointer"),
    [
        ("jobs.dead", {"max_attempts": 1}, "/max_attempts"),
        ("x" * 508, {"max_attempts": 1}, "/max_attempts"),
        ("jobs", {"max_attempts": 0}, "/max_attempts"),
        ("jobs", {"max_items": 1.5}, "/max_items"),
        ("jobs", {"max_bytes": "1MiB"}, "/max_bytes"),
        ("jobs", {"lease": 0}, "/lease"),
        ("jobs", {"lease": None}, "/lease"),
        ("jobs", {"size": 1}, "/size"),
    ],
)
async def test_bad_settings_are_refused_and_set_nothing(client, queue, body, pointer):
    refused = await client.request("PUT", f"/v1/queues/{queue}", body)
    assert (refused.status, refused.slug) == (422, "invalid")
    assert refused.json["errors"][0]["pointer"] == pointer
    assert (await client.request("GET", f"/v1/queues/{queue}")).slug == "unknown-queue"


async def test_settings_are_in_full_and_can_be_forgotten(client):
    await ask(client, "PUT", JOBS, {"max_attempts": 3, "max_items": None})
    shown = await ask(client, "PUT", JOBS, {"lease": 2.5})
    assert (shown["max_attempts"], shown["max_items"], shown["lease"]) == (None, 100_000, 2.5)
    await ask(client, "DELETE", JOBS, status=204)
    assert (await client.request("GET", JOBS)).slug == "unknown-queue"


@pytest.mark.parametrize("delay", [-1, "1w", None, True, 4e9])
async def test_a_bad_delay_is_refused_and_nothing_kept(client, delay):
    for body, pointer in (
        ({"item": 1, "delay": delay}, "/delay"),
        ({"items": [{"item": 1}, {"item": 2, "delay": delay}]}, "/items/1/delay"),
    ):
        refused = await client.request("POST", f"{JOBS}/items", body)
        assert (refused.status, refused.slug) == (422, "invalid")
        assert refused.json["errors"][0]["pointer"] == pointer
    assert client.service.fold.queues.kept == 0

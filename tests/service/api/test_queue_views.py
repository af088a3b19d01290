"""Leases that are extended and listed, queues that are listed, peeked at and purged, and batches."""

import asyncio

import pytest

from purgatory_async.durable.fold.entries import EndLease
from purgatory_async.durable.verbs import pages
from tests.service.api.test_dead_letters import DEAD, JOBS, ask, end, in_line, put, take

pytestmark = pytest.mark.asyncio


async def test_an_extended_lease_counts_again_from_now(client):
    await put(client, "item")
    lease = await take(client, lease="10s")
    await client.advance(9)
    extended = await ask(client, "POST", f"/v1/leases/{lease['lease']}/extend", {"lease": "4s"})
    assert extended == {"lease": lease["lease"], "expires_in": 4.0}
    await client.advance(3.999)
    assert await in_line(client) == []
    # None given: as long as at first.
    again = await ask(client, "POST", f"/v1/leases/{lease['lease']}/extend")
    assert again["expires_in"] == 10.0
    await client.advance(9.999)
    assert await in_line(client) == []
    await client.advance(0.001)
    assert await in_line(client) == ["item"]
    late = await client.request("POST", f"/v1/leases/{lease['lease']}/extend")
    assert (late.status, late.slug) == (410, "lease-expired")
    assert (await client.request("POST", "/v1/leases/none/extend")).slug == "unknown-lease"


@pytest.mark.parametrize("longest", [720 * 60, 90])
async def test_a_lease_above_the_longest_is_cut(make_client, longest):
    client = make_client() if longest == 720 * 60 else make_client(max_lease=longest)
    await put(client, "item")
    lease = await take(client, lease="9999m")
    assert lease["expires_in"] == longest
    extended = await ask(client, "POST", f"/v1/leases/{lease['lease']}/extend", {"lease": "9999m"})
    assert extended["expires_in"] == longest


async def test_leases_are_listed_the_first_to_end_first(client):
    for item, lease in (("a", 30), ("b", 10), ("c", 20)):
        await put(client, item)
        await take(client, lease=lease)
    await put(client, "x", DEAD)
    await take(client, DEAD, lease=5)
    await client.advance(1)
    page = await ask(client, "GET", "/v1/leases?limit=2")
    rest = await ask(client, "GET", f"/v1/leases?limit=2&cursor={page['next']}")
    assert [each["expires_in"] for each in page["leases"] + rest["leases"]] == [4.0, 9.0, 19.0, 29.0]
    assert "next" not in rest
    found = (await ask(client, "GET", "/v1/leases?queue=jobs.dead"))["leases"]
    assert [(each["queue"], each["attempts"], each["owner"]) for each in found] == [("jobs.dead", 1, None)]
    await end(client, found[0], "return")
    assert await in_line(client, DEAD) == ["x"]


@pytest.mark.parametrize("cursor", ["x", "1", "-1-a", "99999999999999999999-a"])
async def test_a_cursor_of_leases_that_is_none_is_refused(client, cursor):
    refused = await client.request("GET", f"/v1/leases?cursor={cursor}")
    assert (refused.status, refused.slug, refused.json["parameter"]) == (400, "bad-parameter", "cursor")


async def test_a_queue_shows_what_it_holds(client):
    await put(client, "a")
    await client.advance(3)
    await put(client, "b")
    await put(client, "c", delay=9)
    shown = await ask(client, "GET", JOBS)
    assert (shown["items"], shown["delayed"], shown["leased"], shown["oldest"]) == (2, 1, 0, 3.0)
    assert (shown["max_items"], shown["max_bytes"], shown["dead"]) == (100_000, 64 << 20, None)
    await take(client, max=2)
    taker = await client.held("POST", f"{JOBS}/take?wait=5s")
    shown = await ask(client, "GET", JOBS)
    assert (shown["items"], shown["leased"], shown["takers"], shown["oldest"]) == (0, 2, 1, None)
    await client.advance(5)
    assert taker.status == 204


async def test_a_queue_without_anything_is_unknown(client):
    assert (await client.request("GET", JOBS)).slug == "unknown-queue"
    await put(client, "item")
    await end(client, await take(client), "ack")
    refused = await client.request("GET", JOBS)
    assert (refused.status, refused.slug) == (404, "unknown-queue")


async def test_queues_are_listed_by_name(client):
    for queue in ("b", "a%2F1", "a%2F2", "c"):
        await put(client, 1, f"/v1/queues/{queue}")
    page = await ask(client, "GET", "/v1/queues?limit=3")
    assert [each["queue"] for each in page["queues"]] == ["a/1", "a/2", "b"]
    rest = await ask(client, "GET", f"/v1/queues?cursor={page['next']}")
    assert [each["queue"] for each in rest["queues"]] == ["c"]
    found = await ask(client, "GET", "/v1/queues?prefix=a/")
    assert [each["queue"] for each in found["queues"]] == ["a/1", "a/2"]


@pytest.mark.parametrize("query", ["cursor=", "cursor=.", "prefix="])
async def test_no_queue_has_the_name_that_is_given(client, query):
    refused = await client.request("GET", f"/v1/queues?{query}")
    assert (refused.status, refused.slug) == (422, "bad-key")


@pytest.mark.parametrize("delayed", [0, 1])
async def test_peeked_items_come_in_pages_and_stay(client, delayed):
    body = [{"item": number, "delay": delayed * (9 - number)} for number in range(7)]
    await ask(client, "POST", f"{JOBS}/items", {"items": body}, status=201)
    seen, cursor = [], ""
    while cursor is not None:
        page = await ask(client, "GET", f"{JOBS}/items?delayed={delayed}&limit=3{cursor}")
        seen += [each["item"] for each in page["items"]]
        cursor = f"&cursor={page['next']}" if "next" in page else None
    assert seen == ([6, 5, 4, 3, 2, 1, 0] if delayed else [0, 1, 2, 3, 4, 5, 6])
    assert client.service.fold.queues.kept == 7


async def test_a_cursor_stays_good_when_items_are_taken(client):
    for item in range(5):
        await put(client, item)
    page = await ask(client, "GET", f"{JOBS}/items?limit=2")
    await take(client, max=3)
    assert await in_line(client, query=f"?cursor={page['next']}") == [3, 4]


@pytest.mark.parametrize("cursor", ["x", "1", "1-2-3-4", "1-2-", "1--2"])
async def test_a_cursor_of_items_that_is_none_is_refused(client, cursor):
    refused = await client.request("GET", f"{JOBS}/items?cursor={cursor}")
    assert (refused.status, refused.slug, refused.json["parameter"]) == (400, "bad-parameter", "cursor")


async def test_an_item_shows_when_it_was_put_and_is_due(client):
    await put(client, 1, delay="2s")
    (shown,) = (await ask(client, "GET", f"{JOBS}/items?delayed=1"))["items"]
    assert (shown["put_at"], shown["due_at"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:02Z")


async def test_a_purge_drops_what_is_not_leased(client):
    await put(client, "leased")
    lease = await take(client)
    await put(client, "ready")
    await put(client, "later", delay=5)
    assert await ask(client, "POST", f"{JOBS}/purge") == {"purged": 2}
    await client.advance(6)
    assert await in_line(client) == []
    await end(client, lease, "return")
    assert await in_line(client) == ["leased"]
    assert await ask(client, "POST", "/v1/queues/unknown/purge") == {"purged": 0}


async def test_items_of_one_put_are_all_or_none(make_client):
    client = make_client(max_items=2)
    batch = {"items": [{"item": number} for number in range(3)]}
    assert (await client.request("POST", f"{JOBS}/items", batch)).slug == "overloaded"
    assert client.service.fold.queues.kept == 0
    taker = await client.held("POST", f"{JOBS}/take?wait=9s")
    batch = {"items": [{"item": "now"}, {"item": "later", "delay": 1}]}
    given = await ask(client, "POST", f"{JOBS}/items", batch, status=201)
    assert [each["delivered"] for each in given["items"]] == [True, False]
    assert len({each["id"] for each in given["items"]}) == 2
    assert taker.json["item"] == "now"


async def test_a_put_with_an_idempotency_key_happens_once(client):
    batch, key = {"items": [{"item": 1}, {"item": 2}]}, [("idempotency-key", "k")]
    first, second = [await client.request("POST", f"{JOBS}/items", batch, key) for _ in range(2)]
    assert (second.status, second.json) == (201, first.json)
    assert second.headers["idempotency-replayed"] == "true"
    assert client.service.fold.queues.kept == 2


async def test_every_fault_of_a_batch_is_told(client):
    batch = {"items": [{"item": 1, "delay": -1}, {"item": 2}, {"delay": 1}, {"item": 3, "x": 1}]}
    refused = await client.request("POST", f"{JOBS}/items", batch)
    pointers = [each["pointer"] for each in refused.json["errors"]]
    assert pointers == ["/items/0/delay", "/items/2/item", "/items/3/x"]


async def test_a_taker_of_several_gets_what_is_there(client):
    for item in range(3):
        await put(client, item)
    found = (await take(client, max=2))["leases"]
    assert [each["item"] for each in found] == [0, 1]
    assert len({each["lease"] for each in found}) == 2
    assert [each["item"] for each in (await take(client, max=100))["leases"]] == [2]
    taker = await client.held("POST", f"{JOBS}/take?wait=9s", {"max": 3})
    await ask(client, "POST", f"{JOBS}/items", {"items": [{"item": n} for n in "abcd"]}, status=201)
    assert [each["item"] for each in taker.json["leases"]] == ["a", "b", "c"]


async def test_a_taker_of_several_gets_at_most_a_mebibyte(client):
    for size in (1 << 19, 1 << 19, 10):
        await put(client, "x" * (size - 2))
    assert [len(each["item"]) for each in (await take(client, max=9))["leases"]] == [(1 << 19) - 2] * 2


@pytest.mark.parametrize("most", [0, 101, 1.5, None, "1"])
async def test_a_bad_max_is_refused_and_takes_nothing(client, most):
    await put(client, 1)
    refused = await client.request("POST", f"{JOBS}/take", {"max": most})
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/max")
    assert await in_line(client) == [1]


async def test_several_leases_end_each_for_itself(client):
    for item in range(3):
        await put(client, item)
    leased = [each["lease"] for each in (await take(client, max=3))["leases"]]
    done = await ask(client, "POST", "/v1/leases/ack", {"leases": [leased[0], "none", leased[0]]})
    assert done["done"] == 1
    assert [(each["pointer"], each["status"]) for each in done["errors"]] == [
        ("/leases/1", 404),
        ("/leases/2", 410),
    ]
    assert done["errors"][0]["type"] == "urn:purgatory:problem:unknown-lease"
    assert (await ask(client, "POST", "/v1/leases/return", {"leases": leased[1:]}))["done"] == 2
    assert await in_line(client) == [1, 2]


@pytest.mark.parametrize(
    ("target", "member"),
    [("/v1/queues", "queues"), ("/v1/leases", "leases"), ("/v1/queues/later/items?delayed=1", "items")],
)
async def test_a_long_list_is_looked_through_in_several_passes(client, monkeypatch, target, member):
    monkeypatch.setattr(pages, "STEPS", 3)
    for number in range(9):
        await put(client, number, f"/v1/queues/q{8 - number}")
        await take(client, f"/v1/queues/q{8 - number}", lease=90 - number)
        await put(client, number, "/v1/queues/later", delay=9 - number)
    whole = (await ask(client, "GET", target))[member]
    assert len(whole) >= 9
    sign = "&" if "?" in target else "?"
    listing, passes = client.start("GET", f"{target}{sign}limit=4"), 0
    while not listing.answered:
        await asyncio.sleep(0)
        passes += 1
    assert passes >= 9 / 3
    page, found = listing.json, []
    while "next" in page:
        found += page[member]
        page = await ask(client, "GET", f"{target}{sign}limit=4&cursor={page['next']}")
    assert found + page[member] == whole


async def test_a_page_names_the_next_one_although_leases_end_meanwhile(client, monkeypatch):
    monkeypatch.setattr(pages, "STEPS", 2)
    for number in range(9):
        await put(client, number)
        await take(client, lease=30 + number)
    listing = client.start("GET", "/v1/leases?limit=4")
    await asyncio.sleep(0)
    for lease in list(client.service.fold.queues.leases)[:3]:
        client.post(EndLease(lease_id=lease))
    assert not listing.answered
    await listing.over
    rest = await ask(client, "GET", f"/v1/leases?cursor={listing.json['next']}")
    assert [each["id"] for each in listing.json["leases"] + rest["leases"]][-5:] == [
        each["id"] for each in (await ask(client, "GET", "/v1/leases"))["leases"]
    ][-5:]

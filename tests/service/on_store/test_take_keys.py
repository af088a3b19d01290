"""A take that is sent again to another worker gets the lease whose answer was lost."""

import asyncio

import pytest

from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold.entries import LeaveLine, Tick

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

TAKE, ITEMS = "/v1/queues/q/take", "/v1/queues/q/items"
KEY = [("idempotency-key", "k")]


def told(reply):
    return reply.status, reply.json["lease"], reply.headers.get("idempotency-replayed")


async def test_another_worker_gives_the_same_lease(members):
    here, there = await members.start(), await members.start()
    for item in (1, 2):
        await here.request("POST", ITEMS, {"item": item})
    first = await here.request("POST", TAKE, {"lease": "1m"}, KEY)
    await here.stop()
    await asyncio.sleep(20)
    again = await there.request("POST", TAKE, {"lease": 60}, KEY)
    assert told(again) == (200, first.json["lease"], "true")
    assert 39 < again.json["expires_in"] <= 40
    assert again.json["item"] == 1


async def test_a_worker_that_starts_later_gives_the_same_leases(members):
    here = await members.start()
    await here.request("POST", ITEMS, {"items": [{"item": 1}, {"item": 2}]})
    first = await here.request("POST", TAKE, {"max": 2}, KEY)
    members.trim(here)
    there = await members.start()
    again = await there.request("POST", TAKE, {"max": 2}, KEY)
    assert [each["lease"] for each in again.json["leases"]] == [
        each["lease"] for each in first.json["leases"]
    ]
    assert [each["item"] for each in again.json["leases"]] == [1, 2]


@pytest.mark.parametrize("from_checkpoint", [False, True])
async def test_takes_at_two_workers_join(members, from_checkpoint):
    here, there = await members.start(), await members.start()
    first = await here.held("POST", f"{TAKE}?wait=50s", {}, KEY)
    second = await there.held("POST", f"{TAKE}?wait=50s", {}, KEY)
    if from_checkpoint:
        members.trim(here)
        await members.start()
    await there.request("POST", ITEMS, {"item": 1})
    await asyncio.gather(first.over, second.over)
    lease = first.json["lease"]
    assert told(first) == (200, lease, None)
    assert told(second) == (200, lease, "true")
    assert (await here.request("POST", f"/v1/leases/{lease}/ack")).status == 204
    assert (await there.request("POST", TAKE, {}, KEY)).status == 204


async def test_who_joined_keeps_its_lease_when_the_first_leaves(members):
    here, there = await members.start(), await members.start()
    first = await here.held("POST", f"{TAKE}?wait=50s", {}, KEY)
    second = await there.held("POST", f"{TAKE}?wait=50s", {}, KEY)
    await there.request("POST", ITEMS, {"item": 1})
    await second.over
    taker = here.service.fold.queues.leases[second.json["lease"]].taker
    here.post(LeaveLine(lease_id=taker))
    await asyncio.sleep(1)
    again = await there.request("POST", TAKE, {}, KEY)
    assert told(again) == (200, second.json["lease"], "true")
    await first.over


async def test_a_worker_that_died_leaves_its_place_to_who_joined(members):
    here, there = await members.start(), await members.start()
    await here.held("POST", f"{TAKE}?wait=50s", {}, KEY)
    second = await there.held("POST", f"{TAKE}?wait=50s", {}, KEY)
    await here.service.state.aclose()
    await asyncio.sleep(20)
    await there.request("POST", ITEMS, {"item": 1})
    await second.over
    assert told(second) == (200, second.json["lease"], None)


async def test_a_refusal_is_one_entry_of_the_log(members):
    here = await members.start()
    await here.request("POST", ITEMS, {"item": 1})
    await here.request("POST", TAKE, {}, KEY)
    before = here.service.fold.position
    refused = await here.request("POST", TAKE, {"lease": 1}, KEY)
    await asyncio.sleep(0.1)
    assert (refused.status, refused.slug) == (422, "idempotency-mismatch")
    assert here.service.fold.position == before + 1


async def test_a_store_of_level_1_takes_without_a_key_only(members):
    members.store.append([codec.encode(Tick())])
    here = await members.start()
    await here.request("POST", ITEMS, {"item": 1})
    before = here.service.fold.position
    refused = await here.request("POST", TAKE, {}, KEY)
    assert (refused.status, refused.slug) == (503, "upgrade-pending")
    assert "purgatory store level" in refused.json["detail"]
    assert here.service.fold.position == before
    assert (await here.request("POST", TAKE, {})).json["item"] == 1
    assert {entry.needed_level for entry in members.store.decoded()} == {1}

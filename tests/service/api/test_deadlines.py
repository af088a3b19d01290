"""A deadline is an instant, and is moved from the present on."""

import datetime as dt
import json

import pytest

from tests.service.api.promised import post, put, shown
from tests.spellings import DEADLINES, NOON_US, NOT_DEADLINES

# Without tasks that compete, so one kind of loop is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_a_deadline_is_an_instant(client):
    reply = await put(client, {"deadline": "2026-01-01T13:00:30.5+01:00"})
    assert reply.json["deadline"] == "2026-01-01T12:00:30.500000Z"
    await client.advance(30.499)
    assert (await shown(client))["state"] == "pending"
    await client.advance(0.001)
    assert (await shown(client))["state"] == "expired"


CENTURY_US = 3_155_760_000_000_000


async def submit(client, body):
    return await client.request("POST", "/v1/operations", {"id": "deploy-77", **body})


async def reschedule(client, body):
    await put(client, {})
    return await post(client, "reschedule", body)


giving = pytest.mark.parametrize("give", [submit, put, reschedule])


@giving
@pytest.mark.parametrize(("text", "instant"), DEADLINES.items())
async def test_every_spelling_means_its_instant(client, give, text, instant):
    reply = await give(client, {"timeout": None, "deadline": text})
    if instant > NOON_US + CENTURY_US:
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/deadline")
    elif instant <= NOON_US:
        assert (await shown(client))["state"] == "expired"
    else:
        due = dt.datetime.fromisoformat((await shown(client))["deadline"])
        assert (due - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1) == instant
        await client.advance((instant - NOON_US - 1) / 1e6)
        assert (await shown(client))["state"] == "pending"
        await client.advance(0.002)
        assert (await shown(client))["state"] == "expired"


@giving
@pytest.mark.parametrize("deadline", [*NOT_DEADLINES, 60, 1.5, True, ["2026-01-01T13:00:00Z"]])
async def test_what_is_no_deadline_is_refused(client, give, deadline):
    reply = await give(client, {"deadline": deadline})
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/deadline")


@giving
async def test_a_deadline_is_at_most_100_years_ahead(client, give):
    assert (await give(client, {"deadline": "2126-01-02T12:00:00.000000001Z"})).status == 422
    assert (await give(client, {"deadline": "2126-01-02T12:00:00Z"})).status in {200, 201, 202}
    assert (await shown(client))["deadline"] == "2126-01-02T12:00:00Z"


@giving
@pytest.mark.parametrize("timeout", [0, 60, "1m"])
async def test_a_timeout_and_a_deadline_are_refused_together(client, give, timeout):
    reply = await give(client, {"timeout": timeout, "deadline": "2026-01-01T13:00:00Z"})
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/deadline")


@giving
async def test_null_beside_the_other_is_absent(client, give):
    await give(client, {"timeout": 60, "deadline": None})
    assert (await shown(client))["deadline"] == "2026-01-01T12:01:00Z"


async def test_a_deadline_that_has_passed_is_a_timeout_of_0(client):
    reply = await put(client, {"deadline": "2025-01-01T00:00:00Z"})
    assert (reply.status, reply.json["state"]) == (201, "expired")


async def test_a_deadline_is_moved_from_now_on(client):
    await put(client, {"timeout": 10})
    await client.advance(9)
    reply = await post(client, "reschedule", {"timeout": "10s"})
    assert (reply.status, reply.json["deadline"]) == (200, "2026-01-01T12:00:19Z")
    await client.advance(9.999)
    assert (await shown(client))["state"] == "pending"
    assert (await put(client, {"timeout": 10})).headers["x-purgatory-attached"] == "true"
    await client.advance(0.002)
    ended = await post(client, "reschedule", {"timeout": 1})
    assert (ended.status, ended.slug, ended.json["operation"]["state"]) == (409, "already-ended", "expired")


@pytest.mark.parametrize("body", [{"timeout": None}, {"deadline": None}, {"timeout": None, "deadline": None}])
async def test_null_takes_the_deadline_away(client, body):
    await put(client, {"timeout": 10})
    assert (await post(client, "reschedule", body)).json["deadline"] is None
    await client.advance(1_000)
    assert (await shown(client))["state"] == "pending"


async def test_a_reschedule_needs_one_deadline(client):
    await put(client)
    assert (await post(client, "reschedule", {})).slug == "invalid"
    past = await post(client, "reschedule", {"deadline": "2025-01-01T13:00:00Z"})
    assert (past.status, past.json["state"]) == (200, "expired")


async def test_a_repeated_reschedule_moves_nothing(client):
    await put(client, {"timeout": 10})
    key = [("idempotency-key", "k")]
    first = await post(client, "reschedule", {"timeout": 60}, headers=key)
    await client.advance(5)
    again = await post(client, "reschedule", {"timeout": "1m"}, headers=key)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json["deadline"] == first.json["deadline"]


async def test_a_reschedule_is_an_event(client):
    stream = client.start("GET", "/v1/events", headers=[("accept", "text/event-stream")])
    await put(client, {"timeout": 10})
    await client.advance(3)
    await post(client, "reschedule", {"timeout": 60})
    await client.advance(1)
    blocks = [block.split(b"\n") for block in stream.body.split(b"\n\n") if b"event:" in block]
    kinds = [line[7:].decode() for block in blocks for line in block if line.startswith(b"event: ")]
    assert kinds == ["submitted", "rescheduled"]
    data = json.loads(next(line[6:] for line in blocks[1] if line.startswith(b"data: ")))
    assert (data["id"], data["state"], data["elapsed"]) == ("deploy-77", "pending", 3.0)
    stream.hang_up()
    await client.advance(0)

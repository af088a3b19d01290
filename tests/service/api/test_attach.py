"""``PUT /v1/operations/{id}``: a question is asked once, and its equal attaches to it."""

import pytest

from tests.service.api.promised import ASK, ONE, QUESTION, post, put

# Without tasks that compete, so one kind of loop is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_a_put_creates_and_the_same_again_attaches(client):
    made = await put(client)
    assert (made.status, made.headers["location"]) == (202, ONE)
    assert "x-purgatory-attached" not in made.headers
    assert made.json["keys"] == ["deploy-77"]
    before = client.service.fold.position
    again = await put(client, {**QUESTION, "timeout": 86_400, "keys": ["deploy-77"], "need": "any"})
    assert (again.status, again.headers["x-purgatory-attached"]) == (200, "true")
    assert "location" not in again.headers
    assert again.json == made.json
    assert client.service.fold.position == before


async def test_an_attach_moves_no_deadline_and_may_be_held(client):
    made = await put(client)
    await client.advance(60)
    held = await client.held("PUT", f"{ONE}?wait=30s", QUESTION)
    await post(client, "answer", {"choice": "reject"})
    assert (held.status, held.json["state"], held.json["result"]) == (200, "completed", {"choice": "reject"})
    assert held.headers["x-purgatory-attached"] == "true"
    assert held.json["deadline"] == made.json["deadline"]


async def test_a_put_with_a_wait_is_held_as_a_submission(client):
    held = await client.held("PUT", f"{ONE}?wait=5", QUESTION)
    await client.advance(5.001)
    assert (held.status, held.headers["location"]) == (202, ONE)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"keys": ["a"]}, ["keys"]),
        ({"need": "all"}, ["need"]),
        ({"timeout": "25h"}, ["timeout"]),
        ({"timeout": None}, ["timeout"]),
        ({"timeout": None, "deadline": "2026-01-02T12:00:00Z"}, ["timeout", "deadline"]),
        ({"keep": "8d"}, ["keep"]),
        ({"ask": {**ASK, "title": "Deploy 78?"}}, ["ask"]),
        ({"announce": "q"}, ["announce"]),
        ({"deliver": "q"}, ["deliver"]),
        ({"data": None}, ["data"]),
        ({"data": 1, "keep": 0}, ["keep", "data"]),
    ],
)
async def test_another_body_is_refused_with_what_differs(client, change, differs):
    await put(client)
    reply = await put(client, {**QUESTION, **change})
    assert (reply.status, reply.slug, reply.json["differs"]) == (409, "duplicate-id", differs)
    assert reply.json["operation"]["id"] == "deploy-77"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"timeout": 60}, {"timeout": "1m"}),
        ({"timeout": "60s"}, {"timeout": 60.0, "deadline": None}),
        ({"deadline": "2026-01-01T13:00:00Z"}, {"deadline": "2026-01-01T14:00:00.000+01:00"}),
        ({"data": {"a": 1, "b": [1.50]}}, {"data": {"b": [1.5], "a": 1.0}}),
        ({"keys": ["a", "b", "a"]}, {"keys": ["a", "b"]}),
        ({"since": 0}, {"since": "now"}),
        ({"ask": {"title": "Go?"}}, {"ask": {"title": "Go?", "choices": ["ok"], "comment": "none"}}),
    ],
)
async def test_bodies_are_compared_by_what_they_mean(client, first, again):
    await put(client, first)
    assert (await put(client, again)).headers["x-purgatory-attached"] == "true"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"data": 1}, {"data": True}),
        ({"data": None}, {}),
        ({"data": {"a": 1}}, {"data": {"a": "1"}}),
        ({"keys": ["a", "b"]}, {"keys": ["b", "a"]}),
        ({"timeout": 60}, {"deadline": "2026-01-01T12:01:00Z"}),
    ],
)
async def test_what_only_looks_alike_is_another_body(client, first, again):
    await put(client, first)
    assert (await put(client, again)).slug == "duplicate-id"


async def test_numbers_of_bodies_are_compared_exactly(client):
    content = [("content-type", "application/json")]
    await put(client, b'{"data": 0.1}', headers=content)
    same = await put(client, b'{"data":1.0e-1}', headers=content)
    other = await put(client, b'{"data":0.1000000000000000055511151231257827}', headers=content)
    assert (same.status, other.slug) == (200, "duplicate-id")


async def test_a_forgotten_question_is_not_asked_again_by_a_put(client):
    await put(client, {"keep": "1s", "timeout": 1})
    await client.advance(1.001)
    assert (await put(client, {"keep": "1s", "timeout": 1})).json["state"] == "expired"
    await client.advance(1.001)
    reply = await put(client, {"keep": "1s", "timeout": 1})
    assert (reply.status, reply.slug) == (410, "forgotten")
    again = await client.request("POST", "/v1/operations", {"id": "deploy-77"})
    assert again.status == 202


@pytest.mark.parametrize(
    ("target", "body", "pointer"),
    [
        (ONE, {"id": "deploy-77"}, "/id"),
        ("/v1/operations/x%20y", {}, "/id"),
        (ONE, {"timeout": 1, "deadline": "2026-01-01T13:00:00Z"}, "/deadline"),
        (ONE, {"deadline": "tomorrow"}, "/deadline"),
        (ONE, {"keep": "367d"}, "/keep"),
        (ONE, {"keep": None}, "/keep"),
        (ONE, {"since": "yesterday"}, "/since"),
        (ONE, {"since": -1}, "/since"),
        (ONE, {"announce": ""}, "/announce"),
        (ONE, {"ask": {}}, "/ask/title"),
        (ONE, {"ask": {"title": ""}}, "/ask/title"),
        (ONE, {"ask": {"title": "x" * 201}}, "/ask/title"),
        (ONE, {"ask": {"title": "a\nb"}}, "/ask/title"),
        (ONE, {"ask": {"title": "a\u202eb"}}, "/ask/title"),
        (ONE, {"ask": {"title": "a", "text": "\x07"}}, "/ask/text"),
        (ONE, {"ask": {"title": "a", "choices": []}}, "/ask/choices"),
        (ONE, {"ask": {"title": "a", "choices": list("abcdefghi")}}, "/ask/choices"),
        (ONE, {"ask": {"title": "a", "choices": ["\u00e9", "e\u0301"]}}, "/ask/choices/1"),
        (ONE, {"ask": {"title": "a", "choices": ["yes", " yes "]}}, "/ask/choices/1"),
        (ONE, {"ask": {"title": "a", "comment": "maybe"}}, "/ask/comment"),
        (ONE, {"ask": {"title": "a", "colour": 1}}, "/ask/colour"),
    ],
)
async def test_a_body_outside_the_contract_is_invalid(client, target, body, pointer):
    reply = await put(client, body, target)
    assert (reply.status, reply.slug, reply.json["errors"][0]["pointer"]) == (422, "invalid", pointer)


async def test_a_question_is_shown_with_its_defaults(client):
    reply = await put(client, {"ask": {"title": "Go?", "text": "Or\n\tnot"}})
    assert reply.json["ask"] == {"title": "Go?", "text": "Or\n\tnot", "choices": ["ok"], "comment": "none"}


async def test_a_draining_service_attaches_to_nothing(client):
    await put(client)
    await client.request("POST", "/v1/admin/drain")
    assert (await put(client)).slug == "draining"
    assert (await client.request("GET", ONE)).status == 200
    assert (await post(client, "answer", {"choice": "approve"})).status == 200


async def test_an_idempotency_key_means_nothing_to_a_put(client):
    key = ("idempotency-key", "k" * 300)
    assert (await put(client, headers=[key])).status == 202
    assert (await put(client, {}, "/v1/operations/other", headers=[key])).status == 202


async def test_an_attach_takes_no_room(make_client):
    client = make_client(max_pending=1)
    await put(client)
    assert (await put(client)).status == 200
    assert (await put(client, target="/v1/operations/other")).slug == "overloaded"

"""Answers end an operation once, by a name; the same answer again is no fault."""

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from tests.service.api.promised import ASK, ONE, post, put, shown

# Without tasks that compete, so one kind of loop is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_an_answer_ends_a_question_and_says_by_whom(client):
    await put(client)
    reply = await post(client, "answer", {"choice": "reject", "comment": "not today", "by": "ann"})
    assert reply.status == 200
    view = reply.json
    assert (view["state"], view["result"]) == ("completed", {"choice": "reject", "comment": "not today"})
    assert (view["by"], view["ended_at"]) == ("ann", "2026-01-01T12:00:00Z")
    assert view["kept_until"] == "2026-01-08T12:00:00Z"
    assert (view["keep"], view["ask"]["comment"]) == (604_800, "optional")


@pytest.mark.parametrize(
    ("ask", "body", "pointer"),
    [
        (None, {"choice": "ok"}, ""),
        ({}, {"choice": "Approve"}, "/choice"),
        ({}, {}, "/choice"),
        ({"comment": "none"}, {"choice": "approve", "comment": "a"}, "/comment"),
        ({"comment": "required"}, {"choice": "approve"}, "/comment"),
        ({"comment": "required"}, {"choice": "approve", "comment": ""}, "/comment"),
        ({}, {"choice": "approve", "comment": "x" * 4097}, "/comment"),
        ({}, {"choice": "approve", "by": ""}, "/by"),
        ({}, {"choice": "approve", "by": "x" * 129}, "/by"),
        ({}, {"choice": "approve", "by": "a\tb"}, "/by"),
    ],
)
async def test_an_answer_must_fit_its_question_before_all_else(client, ask, body, pointer):
    await put(client, {} if ask is None else {"ask": {**ASK, **ask}})
    for _ in range(2):
        reply = await post(client, "answer", body)
        assert (reply.status, reply.slug, reply.json["errors"][0]["pointer"]) == (422, "invalid", pointer)
        await post(client, "complete", {})


@pytest.mark.parametrize(
    ("verb", "body", "state"),
    [
        ("complete", {"result": {"a": 1}, "by": "ann"}, "completed"),
        ("fail", {"error": {"code": 7}}, "failed"),
        ("answer", {"choice": "approve"}, "completed"),
    ],
)
async def test_the_very_answer_again_is_replayed_and_another_refused(client, verb, body, state):
    await put(client)
    first = await post(client, verb, body)
    assert (first.status, first.json["state"]) == (200, state)
    assert "idempotency-replayed" not in first.headers
    again = await post(client, verb, body)
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.json == first.json
    for other in ({"by": "eve"}, {"result": 2}, {"error": 2}, {"choice": "reject"}):
        if other.keys() & body.keys() or "by" in other:
            reply = await post(client, verb, {**body, **other})
            assert (reply.status, reply.slug) == (409, "already-ended")
            assert reply.json["operation"] == first.json
    for another in {"complete": {}, "fail": {"error": 1}, "answer": {"choice": "reject"}}.items():
        assert (await post(client, *another)).slug == "already-ended"


async def test_an_equal_result_of_another_kind_is_another_answer(client):
    await put(client)
    await post(client, "answer", {"choice": "approve"})
    assert (await post(client, "complete", {"result": {"choice": "approve"}})).slug == "already-ended"


async def test_a_failure_shows_its_error_and_null_is_none(client):
    await put(client)
    assert (await post(client, "fail", {"error": None})).json["errors"][0]["pointer"] == "/error"
    view = (await post(client, "fail", {"error": "no such build", "by": "ci"})).json
    assert (view["state"], view["error"], view["by"]) == ("failed", "no such build", "ci")
    assert "result" not in view


async def test_a_signal_may_end_a_question_without_a_result(client):
    await put(client)
    assert (await client.signal("deploy-77"))["completed"] == 1
    view = await shown(client)
    assert (view["state"], view["by"]) == ("completed", None)
    assert "result" not in view
    assert (await post(client, "complete", {})).slug == "already-ended"


async def test_at_level_1_what_is_new_waits_for_the_upgrade(client):
    client.service.fold.level = 1
    new = [
        ("PUT", ONE, {"keep": 1}),
        ("PUT", ONE, {"ask": ASK}),
        ("PUT", ONE, {"deadline": "2026-01-01T13:00:00Z"}),
        ("PUT", ONE, {"announce": "q"}),
        ("POST", "/v1/operations", {"deliver": "q"}),
        ("POST", "/v1/operations", {"keys": ["a"], "since": 0}),
        ("POST", "/v1/operations/op/complete", {"by": "ann"}),
        ("POST", "/v1/operations/op/fail", {"error": 1}),
        ("POST", "/v1/operations/op/reschedule", {"timeout": 1}),
        ("POST", "/v1/operations/op/forget", {}),
    ]
    await client.submit("a", id="op")
    before = client.service.fold.position
    for method, target, body in new:
        reply = await client.request(method, target, body)
        assert (reply.status, reply.slug) == (503, "upgrade-pending"), target
        assert "purgatory store level URL 2" in reply.json["detail"]
        assert "retry-after" in reply.headers
    assert client.service.fold.position == before


async def test_at_level_1_all_else_works(client):
    client.service.fold.level = 1
    assert (await put(client, {"keys": ["a"], "timeout": 9})).status == 202
    assert (await put(client, {"keys": ["a"], "timeout": 9})).headers["x-purgatory-attached"] == "true"
    assert (await put(client, {"keys": ["b"]})).json["differs"] == ["keys", "timeout"]
    assert (await post(client, "complete", {"result": 1})).json["result"] == 1
    assert (await post(client, "complete", {"result": 1})).slug == "already-ended"
    client.post(SignalKey(key="a"))
    assert (await client.request("GET", "/v1/operations?state=ended")).json["operations"][0]["kept_until"]

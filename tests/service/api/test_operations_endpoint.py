"""``/v1/operations``: what is submitted, held, completed, cancelled and listed."""

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.later import at_last

pytestmark = pytest.mark.asyncio


async def test_a_submitted_operation_is_pending_and_can_be_found(client):
    reply = await client.request("POST", "/v1/operations", {"keys": ["a", "b", "a"], "data": {"x": None}})
    assert reply.status == 202
    location = reply.headers["location"]
    assert location == f"/v1/operations/{reply.json['id']}"
    assert (await client.request("GET", location)).json == {
        "id": reply.json["id"],
        "keys": ["a", "b"],
        "need": "any",
        "state": "pending",
        "submitted_at": "2026-01-01T12:00:00Z",
        "deadline": None,
        "elapsed": 0.0,
        "signals": [],
        "ended_at": None,
        "kept_until": None,
        "by": None,
        "data": {"x": None},
        "waiting_for": {"any": ["a", "b"]},
    }


async def test_client_data_is_shown_as_its_json_on_one_line(client):
    body = b'{"keys": ["a"], "id": "op", "data": {"price": 2.50,\n "n": 0.1000000000000000000001}}'
    await client.request("POST", "/v1/operations", body, [("content-type", "application/json")])
    shown = (await client.request("GET", "/v1/operations/op")).body
    assert b'"data":{"price":2.50,"n":0.1000000000000000000001}' in shown
    assert b"\n" not in shown


async def test_the_need_is_met_by_signals_after_submission_only(client):
    await client.signal("a", value="early")
    operation = await client.submit("a", id="op")
    assert operation["signals"] == []
    assert await client.signal("a", value="now", voter="v") == {"key": "a", "index": 3, "completed": 1}
    status = (await client.request("GET", "/v1/operations/op")).json
    assert status["state"] == "completed"
    assert status["signals"] == [{"key": "a", "index": 3, "value": "now", "voter": "v"}]
    assert "waiting_for" not in status
    assert "result" not in status


@pytest.mark.parametrize(
    ("need", "signals", "waiting_for"),
    [
        pytest.param("all", [("a", {}), ("b", {})], {"all": ["b"]}, id="all"),
        pytest.param({"amount": 5}, [("a", {"amount": 3}), ("b", {"amount": 2})], {"amount": 2}, id="amount"),
        pytest.param(
            {"voters": 2}, [("a", {"voter": "x"}), ("a", {"voter": "y"})], {"voters": 1}, id="voters"
        ),
    ],
)
async def test_a_need_says_what_it_waits_for_and_then_holds(client, need, signals, waiting_for):
    await client.submit("a", "b", id="op", need=need)
    (first, first_body), (second, second_body) = signals
    assert (await client.signal(first, **first_body))["completed"] == 0
    assert (await client.request("GET", "/v1/operations/op")).json["waiting_for"] == waiting_for
    assert (await client.signal(second, **second_body))["completed"] == 1
    assert (await client.request("GET", "/v1/operations/op")).json["need"] == need


async def test_a_submission_with_a_wait_is_held_until_the_end(client):
    held = await client.held("POST", "/v1/operations?wait=10", {"keys": ["a"]})
    await client.advance(4)
    await client.signal("a")
    assert (held.status, held.json["state"], held.json["elapsed"]) == (200, "completed", 4.0)


async def test_the_end_of_a_wait_is_not_the_end_of_the_operation(client):
    held = await client.held("POST", "/v1/operations?wait=10", {"keys": ["a"], "id": "op"})
    poll = await client.held("GET", "/v1/operations/op?wait=3")
    await client.advance(3.001)
    assert (poll.status, poll.json["state"]) == (200, "pending")
    assert not held.answered
    await client.advance(7)
    assert (held.status, held.json["state"]) == (202, "pending")
    assert held.headers["location"] == "/v1/operations/op"


async def test_a_long_poll_ends_with_its_operation(client):
    await client.submit("a", id="op", timeout="5s")
    polls = [await client.held("GET", "/v1/operations/op?wait=30s") for _ in range(3)]
    await client.advance(5.001)
    assert [(poll.status, poll.json["state"]) for poll in polls] == [(200, "expired")] * 3


async def test_a_timeout_of_zero_expires_at_once(client):
    exchange = client.start("POST", "/v1/operations", {"keys": ["a"], "timeout": 0})
    await client.advance(0)
    await client.advance(0)
    assert (exchange.status, exchange.json["state"]) == (201, "expired")
    assert "location" in exchange.headers


async def test_completing_ends_it_with_the_result_and_only_once(client):
    await client.submit("a", id="op", need="all")
    held = await client.held("GET", "/v1/operations/op?wait=30")
    reply = await client.request("POST", "/v1/operations/op/complete", {"result": {"by": "hand"}})
    assert (reply.status, reply.json["state"], reply.json["result"]) == (200, "completed", {"by": "hand"})
    assert held.json["result"] == {"by": "hand"}
    again = await client.request("POST", "/v1/operations/op/complete", {"result": 2})
    assert (again.status, again.slug) == (409, "already-ended")
    assert again.json["operation"]["result"] == {"by": "hand"}


@pytest.mark.parametrize(("body", "shown"), [(b"", {}), ({}, {}), ({"result": None}, {"result": None})])
async def test_a_result_of_null_is_a_result_and_none_is_none(client, body, shown):
    await client.submit("a", id="op")
    reply = await client.request("POST", "/v1/operations/op/complete", body)
    assert {name: reply.json[name] for name in reply.json if name == "result"} == shown


async def test_cancelling_is_idempotent_and_wakes_the_poll(client):
    await client.submit("a", id="op")
    held = await client.held("GET", "/v1/operations/op?wait=30")
    for _ in range(2):
        reply = await client.request("DELETE", "/v1/operations/op")
        assert (reply.status, reply.json["state"]) == (200, "cancelled")
    assert held.json["state"] == "cancelled"
    assert (await client.signal("a"))["completed"] == 0


async def test_a_lost_race_with_cancelling_shows_the_state_that_won(client):
    await client.submit("a", id="op")
    await client.signal("a")
    assert (await client.request("DELETE", "/v1/operations/op")).json["state"] == "completed"


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [("DELETE", "/v1/operations/op", 200), ("POST", "/v1/operations/op/complete", 409)],
)
async def test_a_race_lost_behind_the_look_shows_the_end(client, monkeypatch, method, target, status):
    await client.submit("a", id="op")
    propose = client.service.state.propose

    async def propose_late(entry, guard):
        client.post(SignalKey(key="a"))  # as another worker's entry before this one
        return await at_last(propose(entry, guard))

    monkeypatch.setattr(client.service.state, "propose", propose_late)
    reply = await client.request(method, target)
    assert reply.status == status
    shown = reply.json if status == 200 else reply.json["operation"]
    assert shown["state"] == "completed"


async def test_an_ended_operation_is_kept_then_forgotten_then_unknown(make_client):
    client = make_client(retention="60s")
    await client.submit("a", id="op")
    await client.signal("a")
    await client.advance(59)
    assert (await client.request("GET", "/v1/operations/op?wait=5")).json["state"] == "completed"
    await client.advance(1.001)
    gone = await client.request("GET", "/v1/operations/op")
    assert (gone.status, gone.slug) == (410, "forgotten")
    await client.advance(60.001)
    unknown = await client.request("GET", "/v1/operations/op")
    assert (unknown.status, unknown.slug) == (404, "unknown-operation")
    assert client.service.timer.pending == 0


async def test_an_id_is_taken_until_its_operation_is_forgotten(make_client):
    client = make_client(retention="10s")
    await client.submit("a", id="op")
    for _ in range(2):
        taken = await client.request("POST", "/v1/operations", {"keys": ["b"], "id": "op"})
        assert (taken.status, taken.slug) == (409, "duplicate-id")
        await client.signal("a")
    await client.advance(10.001)
    await client.submit("b", id="op")
    await client.advance(30)
    assert (await client.request("GET", "/v1/operations/op")).json["state"] == "pending"


async def test_a_reused_id_is_remembered_for_its_own_time(make_client):
    client = make_client(retention="10s")
    for pause in (10.001, 5):
        await client.submit("a", id="op")
        await client.signal("a")
        await client.advance(pause)
    await client.advance(5.001)
    for _ in range(2):
        assert (await client.request("GET", "/v1/operations/op")).slug == "forgotten"
        await client.advance(4.9)
    await client.advance(0.3)
    assert (await client.request("GET", "/v1/operations/op")).slug == "unknown-operation"


async def test_one_idempotency_key_and_body_give_one_operation(client):
    order, header = {"keys": ["a"]}, ("idempotency-key", "k1")
    first = await client.request("POST", "/v1/operations", order, [header])
    again = await client.request("POST", "/v1/operations", order, [header])
    assert (again.status, again.json["id"]) == (202, first.json["id"])
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert client.service.pending == 1
    await client.signal("a")
    ended = await client.request("POST", "/v1/operations", order, [header])
    assert (ended.status, ended.json["state"]) == (201, "completed")


async def test_an_idempotency_key_lives_as_long_as_its_operation(make_client):
    client = make_client(retention="10s")
    header = ("idempotency-key", "k1")
    first = await client.request("POST", "/v1/operations", {"keys": ["a"]}, [header])
    await client.signal("a")
    await client.advance(10.001)
    second = await client.request("POST", "/v1/operations", {"keys": ["b"]}, [header])
    assert second.json["id"] != first.json["id"]


async def test_pending_operations_are_paged_oldest_first(client):
    for number in range(5):
        await client.submit("all", f"k{number}", id=f"op{number}")
    poll = await client.held("GET", "/v1/wait?key=all&wait=9")
    first = (await client.request("GET", "/v1/operations?limit=2")).json
    assert [operation["id"] for operation in first["operations"]] == ["op0", "op1"]
    for ended in ("op1", "op2"):
        await client.request("DELETE", f"/v1/operations/{ended}")
    second = (await client.request("GET", f"/v1/operations?limit=2&cursor={first['next']}")).json
    assert [operation["id"] for operation in second["operations"]] == ["op3", "op4"]
    assert "next" not in second
    one = (await client.request("GET", "/v1/operations?key=k3")).json
    assert [operation["id"] for operation in one["operations"]] == ["op3"]
    assert (await client.request("GET", "/v1/operations?key=nobody")).json == {"operations": []}
    poll.hang_up()
    await client.advance(0)


async def test_preference_applied_says_what_was_used(client):
    await client.submit("a", id="op")
    prefer = ("prefer", "respond-async, wait=500")
    held = await client.held("GET", "/v1/operations/op", headers=[prefer])
    await client.advance(55.001)
    assert held.headers["preference-applied"] == "wait=55"
    plain = await client.request("GET", "/v1/operations/op?wait=0", headers=[prefer])
    assert plain.headers["preference-applied"] == "wait=0"
    ignored = await client.request("GET", "/v1/operations/op", headers=[("prefer", "wait=soon")])
    assert "preference-applied" not in ignored.headers


async def test_jitter_shortens_a_wait_by_a_sixteenth_at_most(make_client):
    client = make_client(jitter=0.0625)
    client.service._draw = lambda: 1.0
    await client.submit("a", id="op")
    held = await client.held("GET", "/v1/operations/op?wait=16")
    await client.advance(14.9)
    assert not held.answered
    await client.advance(0.2)
    assert held.answered


async def test_mounted_below_a_prefix_it_answers_with_the_prefix(make_client):
    client = make_client(root_path="/held")
    reply = await client.request("POST", "/v1/operations", {"keys": ["a"], "id": "op"})
    assert reply.headers["location"] == "/held/v1/operations/op"

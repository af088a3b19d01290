"""What an operation is kept for, what it counts, and who hears of it without asking."""

import pytest

from tests.service.api.promised import ONE, QUESTION, post, put, shown

# Without tasks that compete, so one kind of loop is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_earlier_signals_count_from_a_place_on(client):
    index = (await client.signal("a", value=1))["index"]
    await client.signal("a", value=2)
    late = await client.request("POST", "/v1/operations", {"keys": ["a"], "since": str(index), "timeout": 0})
    assert (late.status, late.json["state"]) == (201, "completed")
    assert [signal["value"] for signal in late.json["signals"]] == [2]
    assert "gap" not in late.json
    body = {"keys": ["a", "b"], "need": "all", "since": 0}
    both = await client.request("POST", "/v1/operations", body)
    assert (both.status, both.json["waiting_for"]) == (202, {"all": ["b"]})
    newest = await client.request("POST", "/v1/operations", {"keys": ["a"], "since": index + 1})
    assert (newest.status, newest.json["signals"]) == (202, [])


async def test_the_next_of_an_answer_is_a_place(client):
    await client.signal("a")
    place = (await client.request("GET", "/v1/wait?key=a&since=0")).json["next"]
    await client.signal("a", value="since then")
    reply = await client.request("POST", "/v1/operations", {"keys": ["a"], "since": place})
    assert reply.json["signals"][0]["value"] == "since then"


@pytest.mark.parametrize("since", ["0123456789abcdef-1", 10_000])
async def test_a_place_of_another_history_is_a_gap(client, since):
    await client.signal("a")
    reply = await client.request("POST", "/v1/operations", {"keys": ["a"], "since": since})
    assert (reply.status, reply.json["gap"], reply.json["signals"]) == (202, True, [])


async def test_dropped_signals_are_a_gap_and_the_kept_ones_count(make_client):
    client = make_client(keep_signals=1)
    for value in range(3):
        await client.signal("a", value=value)
    body = {"keys": ["a"], "need": {"amount": 3}, "since": 0}
    reply = await client.request("POST", "/v1/operations", body)
    assert (reply.json["gap"], [each["value"] for each in reply.json["signals"]]) == (True, [2])


async def test_with_keep_an_end_outlives_the_retention_time(make_client):
    client = make_client(retention=1)
    await put(client)
    await client.submit("a", id="usual")
    for target in (ONE, "/v1/operations/usual"):
        assert (await post(client, "complete", {"result": 1}, target)).status == 200
    await client.advance(1.001)
    assert (await client.request("GET", "/v1/operations/usual")).status == 410
    await client.advance(6 * 86_400)
    assert (await shown(client))["result"] == 1
    await client.advance(86_400)
    assert (await client.request("GET", ONE)).slug == "forgotten"


async def test_with_keep_an_end_makes_no_room(make_client):
    client = make_client(max_bytes=30_000)
    await put(client, {"keep": "7d"})
    await post(client, "complete", {"result": "kept"})
    for number in range(40):
        await client.submit("a", id=f"o{number}", data="x" * 1000)
        await post(client, "complete", {}, f"/v1/operations/o{number}")
    assert (await client.request("GET", "/v1/operations/o0")).status in {404, 410}
    assert (await shown(client))["result"] == "kept"


async def test_the_room_of_an_answer_is_reserved_at_the_submission(make_client):
    client = make_client(max_bytes=20_000)
    for number in range(2):
        assert (await put(client, {"keep": "7d"}, f"/v1/operations/k{number}")).status == 202
    reply = await put(client, {"keep": "7d"})
    assert (reply.status, reply.slug, reply.json["budget"]) == (503, "overloaded", "max_bytes")
    await client.submit("fill", data="x" * 2500)
    fits = await post(client, "complete", {"result": "y" * 8000}, "/v1/operations/k0")
    longer = await post(client, "complete", {"result": "y" * 12_000}, "/v1/operations/k1")
    assert (fits.status, longer.status, longer.json["budget"]) == (200, 503, "max_bytes")
    assert (await shown(client, "/v1/operations/k1"))["state"] == "pending"


async def test_its_maker_lets_it_be_forgotten(client):
    await put(client)
    pending = await post(client, "forget", {})
    assert (pending.status, pending.slug, pending.json["operation"]["state"]) == (409, "pending", "pending")
    await post(client, "complete", {})
    for _ in range(2):
        assert (await post(client, "forget", b"")).status == 204
    assert (await client.request("GET", ONE)).slug == "forgotten"
    assert (await put(client)).slug == "forgotten"
    assert (await post(client, "forget", {}, "/v1/operations/none")).slug == "unknown-operation"


async def test_a_key_that_made_it_is_remembered_with_it(client):
    body = {"id": "deploy-77", "keep": "1h"}
    key = [("idempotency-key", "k")]
    await client.request("POST", "/v1/operations", body, key)
    await post(client, "complete", {})
    again = await client.request("POST", "/v1/operations", body, key)
    assert (again.json["state"], again.headers["idempotency-replayed"]) == ("completed", "true")
    await post(client, "forget", {})
    assert (await client.request("POST", "/v1/operations", body, key)).slug == "forgotten"
    other = await client.request("POST", "/v1/operations", {"keys": ["a"]}, key)
    assert other.slug == "idempotency-mismatch"


async def test_queues_hear_of_the_submission_and_the_end(client):
    body = {**QUESTION, "announce": "asks", "deliver": "done"}
    for _ in range(3):
        await put(client, body)
    taken = [
        await client.request("POST", f"/v1/queues/{queue}/take", {}) for queue in ("asks", "asks", "done")
    ]
    assert [reply.status for reply in taken] == [200, 204, 204]
    assert taken[0].json["item"] == {"operation": "deploy-77", "event": "submitted"}
    waiting = await client.held("POST", "/v1/queues/done/take?wait=10", {})
    for _ in range(2):
        await post(client, "answer", {"choice": "approve"})
    assert waiting.json["item"] == {"operation": "deploy-77", "event": "ended", "state": "completed"}
    assert (await client.request("POST", "/v1/queues/done/take", {})).status == 204


async def test_each_end_is_told_once_in_the_order_of_submission(client):
    for name in "cab":
        await put(client, {"keys": ["k"], "deliver": "done"}, f"/v1/operations/{name}")
    await client.signal("k")
    await put(client, {"deliver": "done"})
    await post(client, "complete", {})
    items = (await client.request("GET", "/v1/queues/done/items")).json["items"]
    assert [each["item"]["operation"] for each in items] == ["c", "a", "b", "deploy-77"]
    assert len({each["id"] for each in items}) == 4


@pytest.mark.parametrize("member", ["announce", "deliver"])
async def test_a_full_queue_refuses_a_submission_and_never_an_end(client, member):
    await put(client, {member: "q", "deliver": "q"})
    await client.request("PUT", "/v1/queues/q", {"max_items": 1})
    await client.request("POST", "/v1/queues/q/items", {"item": 1})
    refused = await put(client, {member: "q"}, "/v1/operations/other")
    assert (refused.status, refused.slug, refused.json["queue"]) == (503, "overloaded", "q")
    assert (await post(client, "complete", {})).status == 200
    items = (await client.request("GET", "/v1/queues/q/items")).json["items"]
    assert {"operation": "deploy-77", "event": "ended", "state": "completed"} in [
        each["item"] for each in items
    ]


async def test_a_list_is_narrowed_by_state_and_beginnings_of_ids(client):
    for number, verb in enumerate(("complete", "fail", "", "")):
        await put(client, {}, f"/v1/operations/a{number}")
        if verb:
            await post(client, verb, {"error": 1} if verb == "fail" else {}, f"/v1/operations/a{number}")
    await client.submit("k", id="b0")
    await client.request("DELETE", "/v1/operations/b0")

    async def ids(query):
        found = (await client.request("GET", f"/v1/operations{query}")).json
        return "".join(each["id"] for each in found["operations"])

    assert await ids("") == await ids("?state=pending") == "a2a3"
    assert await ids("?state=ended") == "a0a1b0"
    assert await ids("?state=all") == "a0a1a2a3b0"
    assert await ids("?state=failed") == "a1"
    assert await ids("?state=all&id_prefix=b") == "b0"
    assert await ids("?id_prefix=a3") == "a3"
    assert await ids("?state=all&id_prefix=") == "a0a1a2a3b0"
    assert await ids("?state=ended&key=k") == "b0"
    page = (await client.request("GET", "/v1/operations?state=all&limit=2")).json
    assert await ids(f"?state=all&cursor={page['next']}") == "a2a3b0"
    for query in ("?state=gone", "?id_prefix=x%20y", f"?id_prefix={'x' * 129}"):
        assert (await client.request("GET", f"/v1/operations{query}")).slug == "bad-parameter"

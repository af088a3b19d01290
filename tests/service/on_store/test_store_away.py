"""While the engine is away, and when it is back."""

import asyncio

import pytest

from tests.cluster.faulty import ANSWER, REQUEST

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

UNAVAILABLE = (503, "store-unavailable")


async def test_changes_and_reads_fail_after_the_timeout(members):
    here = await members.start(store_timeout=2)
    await here.submit("a", id="a")
    here.link.away = True
    for method, target, body in (
        ("POST", "/v1/operations", {"keys": ["b"]}),
        ("POST", "/v1/keys/a/signal", {}),
        ("POST", "/v1/queues/q/items", {"item": 1}),
        ("POST", "/v1/queues/q/take?wait=1s", None),
        ("GET", "/v1/operations/a", None),
        ("GET", "/v1/operations", None),
        ("GET", "/v1/keys/a", None),
        ("DELETE", "/v1/operations/a", None),
        ("POST", "/v1/leases/x/ack", None),
    ):
        began = here.service.timer.time()
        answer = await here.request(method, target, body)
        assert (answer.status, answer.slug) == UNAVAILABLE, target
        assert 1 <= int(answer.headers["retry-after"]) <= 10
        assert here.service.timer.time() - began == pytest.approx(2, abs=0.01), target
    here.link.away = False
    await asyncio.sleep(3)
    assert (await here.request("GET", "/v1/operations/a")).json["state"] == "pending"


async def test_readiness_names_the_store_and_health_does_not(members):
    here = await members.start()
    assert (await here.request("GET", "/readyz")).status == 200
    here.link.away = True
    await asyncio.sleep(8)
    answer = await here.request("GET", "/readyz")
    assert (answer.status, answer.json["reasons"]) == (503, ["store"])
    assert (await here.request("GET", "/healthz")).status == 200
    here.link.away = False
    await asyncio.sleep(3)
    assert (await here.request("GET", "/readyz")).status == 200


async def test_readiness_ends_where_only_appends_fail(members):
    here = await members.start(store_timeout=1)
    here.link.losses.extend([REQUEST] * 10_000)  # as with a full disk: what is there can be read
    assert (await here.request("POST", "/v1/keys/a/signal", {})).status == 503
    assert (await here.request("GET", "/readyz")).status == 200
    await asyncio.sleep(6)
    answer = await here.request("GET", "/readyz")
    assert (answer.status, answer.json["reasons"]) == (503, ["store"])
    here.link.losses.clear()
    await asyncio.sleep(12)  # by then the heartbeat is appended
    assert (await here.request("GET", "/readyz")).status == 200


async def test_held_requests_stay_held_and_are_answered_after(members):
    here, other = await members.start(), await members.start()
    await here.submit("a", id="a")
    held = [
        await here.held("GET", "/v1/operations/a?wait=50s"),
        await here.held("GET", "/v1/keys/a?index=0&wait=50s"),
        await here.held("GET", "/v1/wait?key=a&wait=50s"),
        await here.held("POST", "/v1/queues/q/take?wait=50s"),
    ]
    here.link.away = True
    await other.signal("a", value=1)
    await other.request("POST", "/v1/queues/q/items", {"item": 7})
    await asyncio.sleep(1)
    assert not any(each.answered for each in held)
    here.link.away = False
    await asyncio.sleep(3)
    assert [each.status for each in held] == [200] * 4
    assert held[3].json["item"] == 7


async def test_a_wait_that_ends_meanwhile_is_no_empty_answer(members):
    here = await members.start(store_timeout=2)
    await here.submit("a", id="a")
    held = [
        await here.held("GET", "/v1/operations/a?wait=5s"),
        await here.held("GET", "/v1/keys/a?index=0&wait=5s"),
        await here.held("GET", "/v1/wait?key=a&wait=5s"),
        await here.held("POST", "/v1/queues/q/take?wait=5s"),
    ]
    here.link.away = True
    await asyncio.sleep(10)
    assert [(each.status, each.slug) for each in held] == [UNAVAILABLE] * 4


async def test_an_overdue_operation_expires_in_the_first_step(members):
    here = await members.start()
    await here.submit("a", id="a", timeout=3)
    here.link.away = True
    await asyncio.sleep(6)
    here.link.away = False
    await asyncio.sleep(3)
    answer = await here.request("GET", "/v1/operations/a")
    assert (answer.json["state"], answer.json["elapsed"]) == ("expired", 3)


async def test_an_item_lent_to_a_taker_that_failed_comes_back(members):
    here, other = await members.start(store_timeout=2), await members.start()
    taking = await here.held("POST", "/v1/queues/q/take?wait=4s")
    here.link.away = True
    await other.request("POST", "/v1/queues/q/items", {"item": 7})
    await taking.task
    assert taking.status == 503
    here.link.away = False
    await asyncio.sleep(3)
    taken = await other.request("POST", "/v1/queues/q/take?wait=1s")
    assert taken.json["item"] == 7


async def test_a_repeated_change_has_the_first_answer(members):
    here, other = await members.start(store_timeout=2), await members.start()
    once = (("idempotency-key", "x"),)
    here.link.deaf_s = 4
    here.link.losses.extend([ANSWER, *[REQUEST] * 1000])
    assert (await here.request("POST", "/v1/operations", {"keys": ["a"]}, once)).status == 503
    here.link.losses.clear()
    again = await other.request("POST", "/v1/operations", {"keys": ["a"]}, once)
    assert again.headers["idempotency-replayed"] == "true"
    assert (await other.request("GET", "/v1/admin/stats")).json["counts"]["submitted"] == 1


async def test_takers_of_a_stopped_worker_line_up_again(members):
    here, other = await members.start(), await members.start()
    taking = await here.held("POST", "/v1/queues/q/take?wait=30s")
    here.link.away = True
    await asyncio.sleep(9)
    await other.signal("time", value=1)
    assert not other.service.fold.queues.takers
    here.link.away = False
    await asyncio.sleep(3)
    assert len(other.service.fold.queues.takers) == 1
    await other.request("POST", "/v1/queues/q/items", {"item": 7})
    await taking.task
    assert (taking.status, taking.json["item"]) == (200, 7)

"""While the engine is away, and when it is back."""

import asyncio
import re

import pytest

from purgatory_async.cluster import LogUnavailable
from purgatory_async.cluster.causes import CAUSES
from tests.cluster.faulty import ANSWER, REQUEST
from tests.service.on_store.test_figures import samples

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


async def readiness(here):
    """The status of /readyz, its reasons, and the cause that admin/stats and the metrics agree on."""
    answer, stats = await here.request("GET", "/readyz"), await here.request("GET", "/v1/admin/stats")
    scraped = await samples(here)
    cause = answer.json.get("cause")
    assert stats.json["store_cause"] == cause
    for each in CAUSES:
        assert scraped[f'purgatory_store_trouble{{cause="{each}"}}'] == (each == cause)
    return answer.status, answer.json.get("reasons"), cause


async def test_readiness_follows_writes_too(members):
    here = await members.start(store_timeout=1)
    here.link.losses.extend([REQUEST] * 10_000)
    assert (await here.request("POST", "/v1/keys/a/signal", {})).status == 503
    assert await readiness(here) == (503, ["store"], "unreachable")
    await asyncio.sleep(30)
    assert await readiness(here) == (503, ["store"], "unreachable")
    here.link.losses.clear()
    await asyncio.sleep(3)  # nothing is asked of it: it finds out by itself
    assert await readiness(here) == (200, None, None)


async def test_a_write_that_only_waits_makes_it_not_ready(members, caplog):
    here = await members.start(store_timeout=1)
    here.link.late_s = 4  # as behind another program's lock; reads are as late, but come
    assert (await here.request("POST", "/v1/keys/a/signal", {})).status == 503
    assert (await here.request("GET", "/readyz")).json["cause"] == "timeout"
    here.link.late_s = 0
    await asyncio.sleep(12)
    assert await readiness(here) == (200, None, None)
    late = "the entry was not applied within 1.0 s; it may still happen"
    assert [record.message for record in caplog.records] == [
        f"the store does not serve: it does not answer in time: {late}",
        "the store serves again after 3.0 s",
    ]


async def test_a_refusal_is_logged_at_both_ends_and_each_minute(members, caplog):
    here = await members.start(store_timeout=1)
    here.link.refusal = LogUnavailable("a.db is not usable: database or disk is full", cause="full")
    assert (await here.request("POST", "/v1/keys/a/signal", {})).status == 503
    assert await readiness(here) == (503, ["store"], "full")
    await asyncio.sleep(149)
    here.link.refusal = None
    await asyncio.sleep(5)
    assert await readiness(here) == (200, None, None)
    assert (await samples(here))['purgatory_store_failures_total{cause="full"}'] > 60
    *during, end = [record.message for record in caplog.records]
    reason = "its disk is full: a.db is not usable: database or disk is full"
    said = [re.sub("[12]?[0-9]{2} s", "N s", line.removesuffix(reason)) for line in during]
    assert said == ["the store does not serve: ", *["the store has not served for N s: "] * 2]
    assert end.startswith("the store serves again after 15")


async def test_a_connection_that_is_soon_back_is_not_logged(members, caplog):
    here = await members.start()
    here.link.losses.append(REQUEST)
    await here.signal("a")
    await asyncio.sleep(3)
    assert not caplog.records


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
    await taking.over
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
    await taking.over
    assert (taking.status, taking.json["item"]) == (200, 7)

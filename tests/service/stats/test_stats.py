"""``GET /v1/admin/stats``: the figures agree with the service and ``/metrics``, and add up."""

import asyncio
import random

import msgspec
import pytest

from purgatory_async import Outcome
from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.stats import survey
from purgatory_async.durable.stats.messages import Stats
from purgatory_async.service.contract.version import VERSION
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

STATS = "/v1/admin/stats"
TREE = msgspec.json.Decoder(Stats)


async def stats(client):
    """The answer; asserts that its content matches its declared type."""
    reply = await client.request("GET", STATS)
    assert reply.status == 200
    TREE.decode(reply.body)
    return reply.json


async def fresh(client):
    """The answer, of a new survey."""
    await client.advance(survey.PERIOD)
    return await stats(client)


def adds_up(counts):
    return counts["submitted"] == sum(counts["ended"].values()) + counts["pending"]


# The counts.


async def test_a_service_that_did_nothing_has_nothing_to_show(make_client):
    client = make_client(max_pending=7, max_items=8)
    found = await stats(client)
    assert set(found["counts"].pop("ended").items()) == {(outcome.value, 0) for outcome in Outcome}
    assert set(found["counts"].values()) == {0}
    assert found["limits"] == {"pending": 7, "items": 8, "streams": 256}
    assert (found["version"], found["epoch"]) == (VERSION, client.service.state.epoch)
    assert (found["draining"], found["uptime"], found["survey_age"]) == (False, 0.0, 0.0)
    assert found["rates"]["window"] == 0
    assert found["busiest_keys"] == found["oldest_operations"] == []
    assert found["delays"]["wait"] == {"count": 0, "p50": None, "p99": None, "max": None}


async def test_every_count_is_of_what_it_says(client):
    for number in range(4):
        await client.submit("a", "b", id=f"op{number}", timeout="2s" if number == 3 else None)
    await client.held("GET", "/v1/wait?key=c&wait=30s")
    await client.held("GET", "/v1/operations/op2?wait=30s")
    await client.held("GET", "/v1/events")
    await client.held("POST", "/v1/queues/empty/take?wait=30s", {})
    await client.request("DELETE", "/v1/operations/op0")
    await client.request("POST", "/v1/operations/op1/complete")
    await client.signal("nobody")
    for _ in range(3):
        await client.request("POST", "/v1/queues/jobs/items", {"item": 1})
    await client.request("POST", "/v1/queues/jobs/take", {})
    await client.advance(2.5)
    found = await stats(client)
    assert found["counts"] == {
        "submitted": 5,
        "ended": {"completed": 1, "expired": 1, "cancelled": 1, "failed": 0, "closed": 0},
        "pending": 2,
        "watched": 3,
        "keys": 3,
        "signals": 1,
        "undelivered": 0,
        "held": 2,
        "takers": 1,
        "gaps": 0,
        "streams": 1,
        "events": 9,
    }
    assert found["queues"] == {"items": 2, "delayed": 0, "leased": 1, "dead": 0, "oldest": 2.5}
    assert found["uptime"] == 2.5
    await client.request("POST", "/v1/admin/drain")
    found = await stats(client)
    assert (found["draining"], found["counts"]["held"], found["counts"]["takers"]) == (True, 0, 0)


async def test_questions_and_what_is_kept_for_them_are_shown(client):
    nothing = {"pending": 0, "oldest": None, "kept": 0, "kept_bytes": 0, "reserved_bytes": 0}
    assert (await stats(client))["questions"] == nothing
    ask = {"title": "Deploy?", "choices": ["yes", "no"]}
    for name in ("first", "second"):
        await client.submit("k", id=name, ask=ask, keep="1m")
        await client.advance(3)
    await client.submit("k", id="plain", keep="1m")
    await client.submit("k", id="unkept", ask=ask)
    found = (await stats(client))["questions"]
    assert found == {**nothing, "pending": 3, "oldest": 6.0, "reserved_bytes": 3 * 8192}
    await client.request("POST", "/v1/operations/first/answer", {"choice": "yes"})
    found = (await stats(client))["questions"]
    size = client.service.fold.operations.by_id["first"].size
    assert found == {"pending": 2, "oldest": 3.0, "kept": 1, "kept_bytes": size, "reserved_bytes": 2 * 8192}
    registry = client.service.metrics.registry
    for sample, value in {
        "asks_pending": 2,
        "asks_oldest_seconds": 3,
        "answers_kept": 1,
        "answers_kept_bytes": size,
        "answers_reserved_bytes": 2 * 8192,
    }.items():
        assert registry.get_sample_value(f"purgatory_{sample}") == value, sample
    await client.advance(60)
    assert (await stats(client))["questions"]["kept"] == 0
    remembered = (await stats(client))["questions"]["kept_bytes"]
    assert 0 < remembered < size  # its id
    await client.advance(60)
    assert (await stats(client))["questions"]["kept_bytes"] == 0


async def test_counts_are_current_although_the_survey_is_older(client):
    await stats(client)
    await client.submit("a")
    await client.advance(0.5)
    found = await stats(client)
    assert (found["counts"]["pending"], found["survey_age"]) == (1, 0.5)
    assert found["oldest_operations"] == []
    assert len((await fresh(client))["oldest_operations"]) == 1


async def test_metrics_say_the_same(client):
    chance = random.Random(5)
    await busy(client, chance, 200)
    counts = (await stats(client))["counts"]
    registry = client.service.metrics.registry
    for name, sample in {
        "submitted": "purgatory_operations_submitted_total",
        "pending": "purgatory_operations_pending",
        "signals": "purgatory_signals_total",
        "undelivered": "purgatory_undelivered_total",
        "gaps": "purgatory_gaps_total",
        "takers": "purgatory_queue_takers",
        **{name: f"purgatory_{name}" for name in ("watched", "held", "streams")},
    }.items():
        assert counts[name] == registry.get_sample_value(sample), name
    for outcome, number in counts["ended"].items():
        labels = {"outcome": outcome}
        assert number == registry.get_sample_value("purgatory_operations_ended_total", labels)


async def busy(client, chance, steps):
    """A random load, over HTTP."""
    held = []
    for number in range(steps):
        key, choice = chance.choice("abcdef"), chance.random()
        if choice < 0.35:
            await client.submit(key, chance.choice("abcdef"), timeout=chance.choice([None, 0.5, 5]))
        elif choice < 0.55:
            held.append(client.start("GET", f"/v1/wait?key={key}&wait={chance.choice(['1s', '9s'])}"))
        elif choice < 0.65 and held:
            held.pop(chance.randrange(len(held))).hang_up()
        elif choice < 0.8:
            await client.signal(key)
        elif choice < 0.9:
            await client.request("POST", f"/v1/queues/{key}/items", {"item": number})
        elif choice < 0.95:
            client.start("POST", f"/v1/queues/{key}/take?wait=1s", {})
        else:
            await client.advance(chance.random())
        await settle()


@pytest.mark.parametrize("seed", range(3))
async def test_they_add_up_whenever_one_asks(client, seed):
    chance = random.Random(seed)
    for _ in range(30):
        await busy(client, chance, 10)
        counts = (await stats(client))["counts"]
        assert adds_up(counts)
        assert counts["pending"] == client.service.pending


async def test_counts_add_up_while_much_happens_between_survey_passes(client, monkeypatch):
    monkeypatch.setattr(survey, "STEPS", 5)
    chance, service = random.Random(9), client.service
    for number in range(300):
        await client.submit(f"k{number}", f"k{number % 7}", timeout=chance.choice([None, 0.5, 100]))
    answers = 0
    for _ in range(20):
        await client.advance(survey.PERIOD)
        exchange = client.start("GET", STATS)
        while not exchange.answered:
            client.post(SignalKey(key=f"k{chance.randrange(300)}"))
            service.wait_once((f"new{chance.random()}",), "any", chance.choice([0.001, 5.0]))
            client.clock.advance(chance.random() / 500)
            await asyncio.sleep(0)
            answers += 1
        assert adds_up(exchange.json["counts"])
    assert answers > 200


# The request.


async def test_it_takes_no_parameters_and_answers_json(client):
    assert (await client.request("GET", STATS + "?key=a")).slug == "bad-parameter"
    assert (await client.request("GET", STATS, headers=[("accept", "text/html")])).slug == "not-acceptable"
    reply = await client.request("GET", STATS)
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"

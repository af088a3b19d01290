"""``/metrics`` of a whole service: it has what the contract names, and adds up while clients come and go."""

import asyncio
import platform
import random

import pytest
from msgspec import Raw
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import purgatory_async
from purgatory_async import Outcome
from purgatory_async.durable.fold.entries import PurgeQueue, PutItem, SignalKey
from purgatory_async.durable.stats import oldest
from purgatory_async.service.contract.version import VERSION
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

JOBS = "/v1/queues/jobs"


async def scrape(client):
    """All samples by name and labels."""
    reply = await client.request("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return samples_in(reply.body)


def samples_in(text):
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def adds_up(samples):
    ended = sum(samples["purgatory_operations_ended_total", outcome.value] for outcome in Outcome)
    pending = samples["purgatory_operations_pending",]
    return samples["purgatory_operations_submitted_total",] == ended + pending


async def test_every_documented_metric_exists_from_the_start(client):
    samples = await scrape(client)
    plain = {
        *(
            "operations_submitted_total",
            "operations_pending",
            "signals_total",
            "watched",
            "undelivered_total",
        ),
        *("wait_seconds_count", "lateness_seconds_count", "loop_lag_seconds_count"),
        *("held", "streams", "gaps_total", "queue_dead_total", "queue_oldest_seconds"),
        *(f"queue_{name}" for name in ("items", "delayed", "leased", "takers")),
        *("asks_pending", "asks_oldest_seconds"),
        *("answers_kept", "answers_kept_bytes", "answers_reserved_bytes"),
    }
    for name in plain:
        assert samples[f"purgatory_{name}",] == 0
    for outcome in Outcome:
        assert samples["purgatory_operations_ended_total", outcome.value] == 0
    core = "compiled" if purgatory_async.compiled else "pure"
    assert samples["purgatory_build_info", core, platform.python_version(), VERSION] == 1


async def test_what_is_held_kept_lent_and_followed_is_shown(client):
    await client.held("GET", "/v1/wait?key=a&wait=30s")
    await client.held("GET", "/v1/events")
    await client.held("POST", "/v1/queues/empty/take?wait=30s", {})
    for _ in range(3):
        await client.request("POST", f"{JOBS}/items", {"item": 1})
    await client.request("POST", f"{JOBS}/take", {})
    samples = await scrape(client)
    shown = {
        name: samples[f"purgatory_{name}",]
        for name in ("held", "queue_takers", "queue_items", "queue_leased", "streams")
    }
    assert shown == {"held": 1, "queue_takers": 1, "queue_items": 2, "queue_leased": 1, "streams": 1}


async def queue_figures(client):
    """The metrics of the queues; and the same of the stats, by the same names."""
    await client.advance(1)  # the survey of the stats is as old at most
    counts = (await client.request("GET", "/v1/admin/stats")).json
    samples = await scrape(client)
    names = {"items": "", "delayed": "", "leased": "", "dead": "_total", "oldest": "_seconds"}
    found = {name: samples[f"purgatory_queue_{name}{suffix}",] for name, suffix in names.items()}
    assert found == {**counts["queues"], "oldest": counts["queues"]["oldest"] or 0}
    return found


async def test_queues_are_shown_as_sums_and_the_oldest_item(client):
    await client.request("PUT", "/v1/queues/b", {"max_attempts": 1})
    for queue in "ab":
        await client.request("POST", f"/v1/queues/{queue}/items", {"item": queue})
        await client.request("POST", f"/v1/queues/{queue}/items", {"item": "later", "delay": "60s"})
        await client.advance(3)
    assert await queue_figures(client) == {"items": 2, "delayed": 2, "leased": 0, "dead": 0, "oldest": 7}
    await client.request("POST", "/v1/queues/a/take", {"lease": "9s"})
    assert await queue_figures(client) == {"items": 1, "delayed": 2, "leased": 1, "dead": 0, "oldest": 5}
    lease = (await client.request("POST", "/v1/queues/b/take", {})).json["lease"]
    await client.request("POST", f"/v1/leases/{lease}/return")
    # It is ready among the dead ones, but nothing will take it: only the ready items of others grow old.
    assert await queue_figures(client) == {"items": 1, "delayed": 2, "leased": 1, "dead": 1, "oldest": 0}
    await client.advance(60)
    assert await queue_figures(client) == {"items": 4, "delayed": 0, "leased": 0, "dead": 1, "oldest": 70}


async def test_many_queues_are_looked_at_in_several_passes(client, monkeypatch):
    monkeypatch.setattr(oldest, "STEPS", 2)
    for number in range(8):
        client.post(PutItem(queue=f"q{number}", item=Raw(b"1"), delay_us=0))
        await client.advance(1)
    scraped, passes = client.start("GET", "/metrics"), 0
    while not scraped.answered:
        await asyncio.sleep(0)
        passes += 1
        if passes == 2:  # a queue that is not looked at yet is no more
            client.post(PurgeQueue(queue="q7"))
    assert passes >= 8 / 2
    assert samples_in(scraped.body)["purgatory_queue_oldest_seconds",] == 8


async def test_an_answer_lost_to_a_client_leaving_is_undelivered(client):
    for number, path in enumerate(("/v1/wait?key=a&wait=9s", "/v1/keys/b?index=0&wait=9s"), 1):
        gone = await client.held("GET", path)
        gone.hang_up()
        client.post(SignalKey(key="b" if "keys" in path else "a"))
        await settle()
        assert not gone.answered
        assert (await scrape(client))["purgatory_undelivered_total",] == number


async def test_an_item_lost_to_a_taker_leaving_is_undelivered_once(client):
    for number in range(1, 4):
        gone = await client.held("POST", f"{JOBS}/take?wait=9s", {})
        gone.hang_up()
        client.post(PutItem(queue="jobs", item=Raw(b"1"), delay_us=0))
        await settle()
        assert not gone.answered
        assert (await scrape(client))["purgatory_undelivered_total",] == number
        assert client.service.fold.queues.kept == 1
        await client.request("POST", f"{JOBS}/take", {})


async def test_a_taker_that_left_with_nothing_is_not_undelivered(client):
    gone = await client.held("POST", f"{JOBS}/take?wait=9s", {})
    gone.hang_up()
    await settle()
    await client.request("POST", f"{JOBS}/items", {"item": 1})
    assert (await scrape(client))["purgatory_undelivered_total",] == 0


async def test_the_loops_lag_is_in_the_histogram_and_in_the_figures(client):
    client.service.note_lag(0.03)
    assert (await scrape(client))["purgatory_loop_lag_seconds_sum",] == 0.03
    assert (await client.request("GET", "/v1/admin/stats")).json["delays"]["loop_lag"]["max"] == 0.03


@pytest.mark.parametrize(
    ("seed", "requests"),
    [(0, 100), (1, 100), (2, 100), pytest.param(3, 400, marks=pytest.mark.slow)],
)
async def test_submitted_is_ended_plus_pending_at_every_scrape(client, seed, requests):
    chance, held = random.Random(seed), []
    for number in range(requests):
        key, choice = chance.choice("abcd"), chance.random()
        if choice < 0.3:
            order = {
                "keys": [key, "e"],
                "timeout": chance.choice([None, 0, 0.2, 4]),
                "need": chance.choice(["any", "all"]),
            }
            client.start("POST", f"/v1/operations?wait={chance.choice(['0', '3s'])}", order)
        elif choice < 0.6:
            held.append(client.start("GET", f"/v1/wait?key={key}&wait=2s"))
        elif choice < 0.7 and held:
            held.pop(chance.randrange(len(held))).hang_up()
        elif choice < 0.9:
            client.start("POST", f"/v1/keys/{key}/signal", {"value": number})
        else:
            client.clock.advance(chance.random())
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        samples = samples_in(generate_latest(client.service.metrics.registry))
        assert adds_up(samples)
        assert samples["purgatory_wait_seconds_count",] == sum(
            samples["purgatory_operations_ended_total", outcome.value] for outcome in Outcome
        )

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
from purgatory_async.service.state.fold.entries import PutItem, SignalKey
from purgatory_async.service.version import VERSION
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
        *("held", "takers", "items", "leases", "streams"),
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
    shown = {name: samples[f"purgatory_{name}",] for name in ("held", "takers", "items", "leases", "streams")}
    assert shown == {"held": 1, "takers": 1, "items": 2, "leases": 1, "streams": 1}


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
        client.post(PutItem(queue="jobs", item=Raw(b"1")))
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


@pytest.mark.parametrize("seed", range(4))
async def test_submitted_is_ended_plus_pending_at_every_scrape(client, seed):
    chance, held = random.Random(seed), []
    for number in range(250):
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

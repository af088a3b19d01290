"""What stats and metrics show of a worker's log."""

import asyncio
from contextlib import closing

import pytest

from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.service.api.scrape import OWN, SHARED
from tests.cluster.faulty import ANSWER

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


async def samples(member):
    text = (await member.request("GET", "/metrics")).body.decode()
    pairs = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


async def test_stats_show_the_position_and_the_digest(members):
    here, other = await members.start(), await members.start()
    await here.submit("a", timeout=3)
    await other.signal("b", value=1)
    await here.service.state.caught_up()
    found = [(await each.request("GET", "/v1/admin/stats?digest=1")).json for each in (here, other)]
    assert found[0]["position"] == found[1]["position"] == here.service.fold.position
    with closing(members.store.folded()) as fold:
        assert found[0]["digest"] == found[1]["digest"] == digest(fold)
    plain = (await here.request("GET", "/v1/admin/stats")).json
    assert "digest" not in plain
    assert (plain["level"], plain["worker"], plain["lag"]) == (3, None, 0)
    assert plain["epoch"] == here.service.state.epoch
    assert (await here.request("GET", "/v1/admin/stats?digest=yes")).status == 400


async def test_the_dashboard_shows_the_workers_of_the_store(members):
    here, other = await members.start(), await members.start()
    await here.submit("a")
    held = await other.held("POST", "/v1/queues/q/take?wait=9s")
    workers = {worker["own"]: worker for worker in (await here.request("GET", "/ui/feed")).json["workers"]}
    assert [workers[own]["takers"] for own in (True, False)] == [0, 1]
    assert all(worker["entries"] and worker["silent"] < 2 for worker in workers.values())
    await held.over
    there = (await other.request("GET", "/ui/feed")).json["workers"]
    assert {worker["name"]: worker["own"] for worker in there} == {
        worker["name"]: not worker["own"] for worker in workers.values()
    }


async def test_the_memory_mode_shows_its_digest_too(members):
    here = await members.in_memory()
    before = (await here.request("GET", "/v1/admin/stats?digest=1")).json
    await here.submit("a")
    after = (await here.request("GET", "/v1/admin/stats?digest=1")).json
    assert after["position"] > before["position"]
    assert after["digest"] != before["digest"]


async def test_metrics_count_what_the_log_does(members):
    here = await members.start()
    await asyncio.sleep(1)
    before = await samples(here)
    await here.submit("a", timeout=2)
    here.link.losses.append(ANSWER)
    here.link.deaf_s = 0.5
    await here.signal("b")
    here.link.deaf_s = 0
    await asyncio.sleep(3)
    after = await samples(here)
    assert after["purgatory_log_position"] == here.service.fold.position
    assert after["purgatory_log_unwritten"] == after["purgatory_log_lag_seconds"] == 0
    grown = {name: after[name] - before[name] for name in before}
    assert grown["purgatory_log_applied_total"] == grown["purgatory_log_position"] == 4
    assert grown["purgatory_log_repeated_total"] == grown["purgatory_log_reconnects_total"] == 1
    assert grown["purgatory_log_ticks_total"] == 1
    assert grown["purgatory_log_appended_total"] == 3  # the engine's answer to one was lost
    members.store.lose(1)
    await asyncio.sleep(3)
    assert (await samples(here))["purgatory_log_gaps_total"] == 1


async def test_the_log_is_shown_only_with_a_store(members):
    shown = {name for name in await samples(await members.start()) if "_log_" in name}
    named = {name.removesuffix("_total") for name in shown if not name.endswith("_created")}
    assert named == {name for name in OWN if "_log_" in name}
    assert not any("_log_" in name for name in SHARED)
    assert not any("_log_" in name for name in await samples(await members.in_memory()))

"""Workers of two levels on one store: nothing that an older one cannot read is written before the level is raised."""

import asyncio
import random
from itertools import product

import pytest

from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold import fold as folding
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.entries import SetLevel, Tick
from tests.service.on_store.scripts import Player, drawn

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

ONE = "/v1/operations/p"


@pytest.fixture
def older(members):
    """A store that a worker of level 1 has begun."""
    members.store.append([codec.encode(Tick())])
    return members


@pytest.mark.parametrize("seed", range(5))
async def test_at_level_1_only_its_entries_are_written(older, seed):
    members = [await older.start() for _ in range(2)]
    players = [Player(member) for member in members]
    for number, step in enumerate(drawn(random.Random(seed), 60, timed=True)):
        players[number % 2].send(*step)
        await asyncio.sleep(0.1)
    for player in players:
        await player.answers()
        statuses = {each.status for each in player._sent}
        assert 503 in statuses
        assert statuses & {200, 201, 202}
    assert {entry.needed_level for entry in older.store.decoded()} == {1}
    assert not [entry for entry in older.store.decoded() if isinstance(entry, SetLevel)]
    await asyncio.gather(*(member.service.state.caught_up() for member in members))
    first, second = (digest(member.service.fold) for member in members)
    assert first == second


async def test_two_puts_at_level_1_make_one_operation(older):
    here, there = await older.start(), await older.start()
    asked = [member.start("PUT", ONE, {"keys": ["a"]}) for member in (here, there)]
    await asyncio.gather(*(exchange.over for exchange in asked))
    assert sorted(exchange.status for exchange in asked) == [200, 202]
    assert sum("x-purgatory-attached" in exchange.headers for exchange in asked) == 1


async def test_two_replicas_that_ask_get_one_answer(members):
    here, there = await members.start(), await members.start()
    body = {"keep": "1h", "announce": "asks", "deliver": "done"}
    asked = [member.start("PUT", f"{ONE}?wait=20s", body) for member in (here, there)]
    await asyncio.sleep(0.5)
    assert not any(exchange.answered for exchange in asked)
    answers = [
        member.start("POST", f"{ONE}/complete", {"result": result})
        for member, result in ((here, 1), (there, 2))
    ]
    await asyncio.gather(*(exchange.over for exchange in (*answers, *asked)))
    won, lost = sorted(answers, key=lambda exchange: exchange.status)
    assert (won.status, lost.status) == (200, 409)
    assert [exchange.json for exchange in asked] == [won.json, lost.json["operation"]]
    for member, queue in product((here, there), ("asks", "done")):
        items = (await member.request("GET", f"/v1/queues/{queue}/items")).json["items"]
        assert len(items) == 1


async def test_a_raised_level_lets_promises_in_and_older_workers_out(older, monkeypatch):
    newer = await older.start()
    assert (await newer.request("PUT", ONE, {"keep": "1h"})).slug == "upgrade-pending"
    older.store.append([codec.encode(SetLevel(level=2))])
    assert (await newer.request("PUT", ONE, {"keep": "1h"})).status == 202
    monkeypatch.setattr(folding, "LEVEL", 1)
    with pytest.raises(folding.LevelError, match="must be at most 1"):
        older.store.folded()


async def test_a_question_and_its_answer_outlive_a_restart(members):
    first = await members.start()
    await first.request("PUT", ONE, {"keep": "7d", "ask": {"title": "Go?"}, "timeout": "1h"})
    members.trim(first)
    second = await members.start()
    held = second.start("PUT", f"{ONE}?wait=20s", {"keep": "7d", "ask": {"title": "Go?"}, "timeout": 3600})
    await asyncio.sleep(0.5)
    assert not held.answered
    await first.request("POST", f"{ONE}/answer", {"choice": "ok", "by": "ann"})
    await held.over
    assert (held.status, held.json["by"], held.json["result"]) == (200, "ann", {"choice": "ok"})
    members.trim(second)
    third = await members.start()
    again = await third.request("PUT", ONE, {"keep": "7d", "ask": {"title": "Go?"}, "timeout": "60m"})
    assert (again.status, again.json["by"]) == (200, "ann")

"""A `Durable` on a store that it shares: while that is away, with damage, at level 1, as processes come and go."""

import asyncio
import logging

import pytest

from purgatory_async import OperationExpired, PurgatoryClosed
from purgatory_async.cluster import LogDamaged
from purgatory_async.durable import Durable
from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold.entries import SetLevel, SetLimits, Tick
from tests.cluster.faulty import ANSWER, REQUEST
from tests.durable.library.calls import later, refused, start

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

ASK = {"title": "Go?", "choices": ["yes", "no"]}


def pending(verbs):
    """The ids of all pending operations that a process knows."""
    return [each.id for each in verbs.keeper.fold.operations.pending()]


def now():
    return asyncio.get_running_loop().time()


async def waits_of(here):
    """Waits of each sort, on the operations ``o``, ``p`` and ``q``."""
    await here.attach("o", ask=ASK, keep="7d")
    await here.submit(["p"], operation_id="p")
    return [
        await start(here.ask("o", ASK["title"], choices=ASK["choices"])),
        await start(here.follow("p")),
        await start(here.wait("k")),
        await start(here.caught_up(here.position + 100)),
    ]


# While the store is away.


async def test_calls_on_a_store_that_is_away_are_refused_after_5_s(members):
    here = await members.open()
    await here.attach("o", ask=ASK)
    here.link.away = True
    for call in (
        here.submit(["k"]),
        here.attach("p"),
        here.status("o"),
        here.answer("o", "yes"),
        here.complete("o"),
        here.fail("o", 1),
        here.cancel("o"),
        here.reschedule("o", timeout=1),
        here.forget("o"),
        here.links("o"),
        here.caught_up(),
    ):
        began = now()
        refusal = await refused(call, 503, "store-unavailable")
        assert now() - began == pytest.approx(5, abs=0.01)
        assert "Idempotency-Key" not in refusal.detail
    here.link.away = False
    await later(3)
    assert (await here.status("o")).pending


async def test_waits_go_on_when_the_store_is_back_which_is_said_once(members, caplog):
    here, other = await members.open(), await members.open()
    waits = await waits_of(here)
    [own] = set(pending(other)) - {"o", "p"}
    caplog.clear()
    here.link.away = True
    for name, end in (
        ("o", other.answer("o", "yes")),
        ("p", other.complete("p", 1)),
        (own, other.fail(own, 2)),
    ):
        assert not (await end).pending, name
    await later(50)
    assert not any(each.done() for each in waits)
    assert not here.connected
    assert here.lag > 40
    here.link.away = False
    ended = await asyncio.wait_for(asyncio.gather(*waits[:-1]), 5)
    assert [each.state for each in ended] == ["completed", "completed", "failed"]
    await later(5)
    assert here.connected
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "does not serve" in caplog.text
    assert "serves again" in caplog.text
    waits[-1].cancel()


async def test_a_question_may_be_asked_while_the_store_is_away(members):
    here, other = await members.open(), await members.open()
    here.link.away = True
    asking = await start(here.ask("o", "Go?"))
    await later(60)
    assert not asking.done()
    here.link.away = False
    await later(3)
    await other.answer("o", "ok", by="ann")
    assert (await asyncio.wait_for(asking, 1)).by == "ann"
    assert members.store.kinds().count("SubmitOperation") == 1


async def test_a_wait_that_is_over_while_the_store_is_away_is_refused(members):
    here = await members.open()
    await here.submit(operation_id="o")
    following = await start(here.follow("o", timeout=10))
    here.link.away = True
    began = now()
    await refused(following, 503, "store-unavailable")
    assert now() - began < 20
    with pytest.raises(OperationExpired):
        await here.caught_up(10**6, timeout=2)


async def test_a_change_whose_answer_was_lost_counts_once(members):
    here, other = await members.open(), await members.open()
    here.link.losses.extend([ANSWER, REQUEST])
    assert (await here.submit(["k"], operation_id="o")).pending
    assert pending(other) == ["o"]
    await later(1)
    here.link.deaf_s = 10
    here.link.losses.extend([ANSWER, *[REQUEST] * 1000])
    await refused(here.submit(operation_id="p"), 503, "store-unavailable")
    here.link.losses.clear()
    here.link.deaf_s = 0
    await later(15)
    assert (await here.attach("p")).attached


# Damage.


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_damaged_entry_stops_this_process_and_is_said_once(members, caplog, restarted):
    here = await members.open()
    waits = await waits_of(here)
    position = members.store.append([b"{"]).first
    results = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 5)
    shown = f"entry {position}"
    assert [(each.status, each.slug) for each in results] == [(503, "store-unavailable")] * 4
    assert all(shown in each.detail for each in results)
    assert here._open.waits.why_closed() is not here._open.waits.why_closed()  # each raise makes it longer
    for call in (
        here.submit(),
        here.status("o"),
        here.ask("o", "Go?"),
        here.wait("k"),
        here.caught_up(10**6),
    ):
        assert shown in (await refused(asyncio.wait_for(call, 5), 503, "store-unavailable")).detail
    [logged] = [record for record in caplog.records if record.name.startswith("purgatory_async")]
    assert (logged.levelno, shown in logged.getMessage()) == (logging.ERROR, True)
    assert not here.connected
    assert here._open.waits.count == 0
    await here.__aexit__(None, None, None)
    with pytest.raises(PurgatoryClosed):
        await here.status("o")
    if restarted:
        with pytest.raises(LogDamaged, match=shown):
            await members.open()


# Levels.


@pytest.fixture
def older(members):
    """A store that a process of level 1 has begun."""
    members.store.append([codec.encode(Tick())])
    return members


async def test_at_level_1_new_members_are_refused_and_all_else_works(older):
    here, other = await older.open(), await older.open()
    for call in (
        here.submit(keep=60),
        here.attach("o", ask=ASK),
        here.attach("o", announce="q"),
        here.attach("o", deliver="q"),
        here.ask("o", "Go?"),
        here.submit(since=0),
    ):
        refusal = await refused(call, 503, "upgrade-pending")
        assert "purgatory store level" in refusal.detail
    assert not (await here.attach("o", ["k"], need="all", timeout=60, data=1)).attached
    assert (await other.attach("o", ["k"], need="all", timeout="1m", data=1)).attached
    following = await start(other.follow("o"))
    completed = await here.complete("o", 7)
    assert (completed.result, completed.by) == (7, None)
    assert (await asyncio.wait_for(following, 1)).result == 7
    await refused(here.complete("o", 7), 409, "already-ended")
    await here.submit(operation_id="p")
    for call in (here.complete("p", 1, by="ann"), here.fail("p", 1), here.reschedule("p", timeout=1)):
        await refused(call, 503, "upgrade-pending")
    assert (await here.cancel("p")).state == "cancelled"
    assert {entry.needed_level for entry in older.store.decoded()} == {1}


async def test_a_level_that_is_raised_lets_new_members_in(older):
    here = await older.open()
    await refused(here.submit(keep=60), 503, "upgrade-pending")
    older.store.append([codec.encode(SetLevel(level=2))])
    assert (await here.submit(keep=60)).keep == 60


# Settings, and who does what.


async def test_only_settings_that_are_given_change_the_store_for_all(members):
    first = await members.open(max_pending=3, retention="1h")
    await later(0.1)
    before = first.keeper.fold.shared.limits
    assert (before.max_pending, before.retention_us) == (3, 3_600_000_000)
    second = await members.open()
    await later(0.1)
    assert second.keeper.fold.shared.limits == first.keeper.fold.shared.limits == before
    await members.open(max_bytes=1 << 20)
    await members.open(max_pending=3)
    await first.caught_up()
    now_set = first.keeper.fold.shared.limits
    assert (now_set.max_pending, now_set.retention_us, now_set.max_kept) == (3, 3_600_000_000, 1 << 20)
    assert sum(isinstance(entry, SetLimits) for entry in members.store.decoded()) == 2
    for _ in range(3):
        await second.submit()
    assert (await refused(first.submit(), 503, "overloaded")).document["limit"] == 3


async def test_each_acts_under_its_owners_name_and_may_change_all(members):
    ann, bob, nobody = await members.open(owner="ann"), await members.open(owner="bob"), await members.open()
    for name in ("o", "p", "q"):
        await ann.attach(name, ask=ASK)
    assert (await bob.status("o")).owner == "ann"
    assert (await bob.answer("o", "yes")).by == "bob"
    assert (await bob.answer("p", "no", by="the page of bob")).by == "the page of bob"
    assert (await nobody.complete("q", 1)).by is None
    await refused(bob.attach("o", ask=ASK), 409, "duplicate-id")
    made = await nobody.submit(operation_id="r")
    assert made.owner is None
    assert (await bob.cancel("r")).state == "cancelled"


# Leaving.


async def test_leaving_ends_the_calls_here_and_another_process_goes_on(members):
    here, other = await members.open(), await members.open()
    waits = await waits_of(here)
    here.link.answer_s = here.link.deaf_s = 2
    changing = asyncio.create_task(here.submit(operation_id="late"))
    await later(0.1)
    await here.__aexit__(None, None, None)
    results = await asyncio.gather(*waits, changing, return_exceptions=True)
    assert {type(each) for each in results} == {PurgatoryClosed}
    assert {"was left" in str(each) for each in results} == {True}
    assert set(pending(other)) >= {"o", "p", "late"}
    assert len(other.keeper.fold.operations.by_id) == 4  # the wait's, too
    assert not [entry for entry in members.store.decoded() if type(entry).__name__ == "EndOperation"]
    following = await start(other.follow("o"))
    third = await members.open()
    await third.answer("o", "yes", by="ann")
    assert (await asyncio.wait_for(following, 1)).by == "ann"


async def test_a_wait_that_leaving_ends_keeps_its_operation(members):
    here, other = await members.open(), await members.open()
    waiting = await start(here.wait("k"))
    here._open.waits.close()
    assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], PurgatoryClosed)
    await later(1)
    assert len(pending(other)) == 1


async def test_leaving_while_the_store_is_away_ends_the_calls(members):
    here = await members.open()
    waits = await waits_of(here)
    here.link.away = True
    here.link.cut()
    changes = [asyncio.create_task(here.submit()), asyncio.create_task(here.ask("r", "Go?"))]
    await later(3)
    began = now()
    await here.__aexit__(None, None, None)
    results = await asyncio.gather(*waits, *changes, return_exceptions=True)
    assert {type(each) for each in results} == {PurgatoryClosed}
    assert now() - began < 2


async def test_in_memory_leaving_ends_all():
    async with Durable("memory:") as here:
        await here.submit(operation_id="o")
        waits = [
            await start(call)
            for call in (here.follow("o"), here.wait("k"), here.ask("p", "Go?"), here.caught_up(99))
        ]
    results = await asyncio.gather(*waits, return_exceptions=True)
    assert {type(each) for each in results} == {PurgatoryClosed}


async def test_a_deadline_passes_though_its_maker_is_gone(members):
    here, other = await members.open(), await members.open()
    await here.submit(operation_id="o", timeout=5)
    following = await start(other.follow("o"))
    await here.__aexit__(None, None, None)
    began = now()
    assert (await following).state == "expired"
    assert now() - began < 10

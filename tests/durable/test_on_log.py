"""The state of a worker on a log: order, answers, reads, its start and its end."""

import asyncio
from itertools import pairwise

import pytest

from purgatory_async import PurgatoryFull
from purgatory_async.cluster import LogError, LogUnavailable, MemoryLog
from purgatory_async.cluster.retention import MARK
from purgatory_async.durable.fold.entries import (
    EndOperation,
    SetLimits,
    SignalKey,
    WantItem,
)
from purgatory_async.durable.fold.fold import LEVEL
from purgatory_async.durable.fold.leases import TakerLeft
from purgatory_async.durable.fold.operations import OperationEnded
from purgatory_async.durable.fold.results import InLine, Refused, Signalled, Submitted
from purgatory_async.durable.since import Wanted, kept_since
from purgatory_async.testing import cancel_sweep
from tests.cluster.faulty import ANSWER, REQUEST
from tests.durable.log_workers import TIMEOUT, EpochLog, Worker, settled, submit

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])
SECOND = 1_000_000


async def test_what_one_worker_proposes_every_worker_applies(workers):
    here, there = await workers.start(), await workers.start()
    assert await here.propose(submit("a")) == Submitted("a", "pending")
    assert await there.propose(submit("a")) == Refused("duplicate-id")
    signalled = await there.propose(SignalKey(key="a"))
    assert (type(signalled), signalled.completed) == (Signalled, 1)
    assert await here.propose(EndOperation(id="a", how="cancelled")) == Refused("already-ended")
    assert await settled(here, there)
    assert [effect.operation.id for effect in here.seen(OperationEnded)] == ["a"]
    kinds = ["SubmitOperation", "SubmitOperation", "SignalKey", "EndOperation"]
    assert workers.store.kinds() == ["SetLevel", *kinds]


async def test_a_read_shows_what_any_worker_has_answered(workers):
    here, there = await workers.start(), await workers.start()
    there.log.deaf_s = 0.5
    await here.propose(submit("a"))
    assert "a" not in there.fold.operations.by_id
    await there.state.caught_up()
    assert "a" in there.fold.operations.by_id


async def test_a_read_asks_nothing_if_the_end_is_known(workers):
    here, there = await workers.start(), await workers.start()
    there.log.deaf_s = 0.5
    assert not there.state.is_caught_up()  # a server would have to be asked
    there.log.end_now = there.log.inner.end_now
    assert there.state.is_caught_up()
    await here.propose(submit("a"))
    assert not there.state.is_caught_up()
    await there.state.caught_up()
    assert there.state.is_caught_up()
    there.log.away = True
    await there.state.caught_up()
    await there.state.aclose()
    assert not there.state.is_caught_up()


async def test_a_read_fails_while_the_engine_is_away(workers):
    worker = await workers.start()
    worker.log.away = True
    begun = worker.timer.time()
    with pytest.raises(LogUnavailable, match=r"the log's end was not reached within 5\.0 s"):
        await worker.state.caught_up()
    assert worker.timer.time() - begun == pytest.approx(TIMEOUT, abs=0.01)
    reading = asyncio.ensure_future(worker.state.caught_up())
    await asyncio.sleep(1)
    worker.log.away = False
    await reading


async def test_reads_that_wait_together_share_a_question(workers):
    worker = await workers.start()
    worker.log.late_s = 0.1
    asked = []
    inner = worker.log.inner.end

    async def end():
        asked.append(worker.timer.time())
        return await inner()

    worker.log.inner.end = end
    await asyncio.gather(*(worker.state.caught_up() for _ in range(50)))
    assert len(asked) <= 2  # `connected` may have asked once more


async def test_an_entry_may_happen_after_its_timeout(workers):
    worker = await workers.start()
    await worker.propose(submit("first"))
    worker.log.losses += [ANSWER]
    worker.log.deaf_s = 8
    with pytest.raises(LogUnavailable, match=r"not applied within 5\.0 s; it may still happen"):
        await worker.propose(submit("a"))
    worker.log.deaf_s = 0
    await asyncio.sleep(10)
    assert worker.fold.operations.by_id["a"].state == "pending"
    assert await settled(worker)


@pytest.mark.parametrize("lost", [REQUEST, ANSWER])
async def test_an_unknown_outcome_takes_effect_once(workers, lost):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a"))
    await asyncio.sleep(1)
    here.log.losses += [lost, lost]
    here.log.deaf_s = 3
    await here.propose(SignalKey(key="a", amount=3))
    await settled(here, there)
    assert there.fold.shared.totals.signals == 1
    repeated = 2 if lost == ANSWER else 0
    assert (here.state.proposals.repeated, there.fold.shared.totals.dropped) == (repeated, repeated)
    assert here.state.contact.reconnects > 0


async def test_too_many_unwritten_entries_are_refused(workers):
    worker = await workers.start()
    worker.log.away = True
    await asyncio.sleep(0.1)
    for number in range(10_000 - worker.state.proposals.writer.waiting):
        worker.state.post(SignalKey(key=f"k{number}"))
    with pytest.raises(PurgatoryFull):
        await worker.propose(submit("a"))
    assert worker.state.proposals.writer.waiting == 10_000


async def test_a_start_goes_on_from_the_newest_checkpoint(workers):
    here = await workers.start()
    await here.propose(submit("a", timeout=60 * SECOND))
    await here.propose(submit("b"))
    workers.store.checkpoint_of(here.fold)
    await here.propose(SignalKey(key="b"))
    there = await workers.start()
    assert there.loads == [workers.store.checkpoint]
    assert there.state.position == here.state.position
    assert [effect.operation.id for effect in there.seen(OperationEnded)] == ["b"]
    assert await settled(here, there)


async def test_a_start_after_a_clusters_mark_is_empty(workers):
    here = await workers.start()
    await here.propose(SignalKey(key="k"))
    await here.stop()
    workers.store.save(workers.store.position, [MARK], 0)
    position = workers.store.position
    one, two = await workers.start(), await workers.start()
    assert one.loads == [position]
    assert one.fold.signals.latest("k") is None
    assert one.fold.signals.highest == position
    assert [
        kept_since(one.fold.signals, Wanted(("k",), ()), index, 9).gap for index in (position - 1, position)
    ] == [True, False]
    await one.propose(SignalKey(key="k"))
    assert await settled(one, two)


async def test_limits_are_appended_if_they_differ(workers):
    limits = SetLimits(max_pending=2, retention_us=5 * SECOND)
    one = await workers.start(limits=limits)
    for name in "abc":
        result = await one.propose(submit(name))
    assert result == Refused("overloaded")
    two = await workers.start(limits=SetLimits(max_pending=2))
    await asyncio.sleep(20)
    assert workers.store.kinds().count("SetLimits") == 1
    three = await workers.start(limits=SetLimits(max_pending=3))
    await three.propose(submit("c"))
    assert await settled(one, two, three)
    assert one.fold.shared.limits.max_pending == 3


async def test_an_unfinished_start_waits_for_the_engine(workers):
    here = await workers.start()
    await here.propose(submit("a"))
    here.log.away = True
    starting = asyncio.ensure_future(workers.start())
    await asyncio.sleep(0)
    there = await starting
    assert "a" in there.fold.operations.by_id


async def test_a_read_of_a_new_store_waits_until_it_has_begun(workers):
    worker = Worker(workers.store)
    worker.log.refusal = LogUnavailable("the disk is full")
    starting = asyncio.ensure_future(worker.start())
    await asyncio.sleep(0.01)
    reading = asyncio.ensure_future(worker.state.caught_up())
    await asyncio.sleep(1)
    assert not reading.done()
    worker.log.refusal = None
    await reading
    assert worker.fold.level == LEVEL, "what it may be asked for"
    await starting
    await worker.stop()


async def test_takers_stay_in_line_while_their_worker_lives(workers):
    here, there = await workers.start(), await workers.start()
    wanted = await here.propose(
        WantItem(queue="q", lease_id="l", lease_us=SECOND, wait_us=3600 * SECOND, max=1)
    )
    assert wanted == InLine()
    await asyncio.sleep(120)
    own = [entry.at_us for entry in workers.store.entries if here.state._writer.name.encode() in entry.data]
    assert max(after - before for before, after in pairwise(own)) <= 2 * SECOND
    assert "l" in there.fold.queues.takers
    await here.stop()
    await asyncio.sleep(20)
    (left,) = there.seen(TakerLeft)
    assert left.why == "silent"


async def test_an_idle_worker_appends_only_its_digest(workers):
    worker = await workers.start()
    await worker.propose(submit("a"))
    before = workers.store.position
    await asyncio.sleep(600)
    assert 55 <= workers.store.position - before <= 61
    assert worker.state.ticks.appended == 0
    assert worker.state.connected
    assert worker.state.lag == 0.0


async def test_connected_and_lag_follow_the_engine(workers):
    here, there = await workers.start(), await workers.start()
    there.log.away = True
    await here.propose(submit("a"))
    await asyncio.sleep(10)
    assert not there.state.connected
    assert 8 <= there.state.lag <= 12
    there.log.away = False
    await asyncio.sleep(5)
    assert there.state.connected
    assert there.state.lag == 0.0


async def test_closing_fails_what_waits(workers):
    worker = await workers.start()
    worker.log.away = True
    waits = [
        asyncio.ensure_future(worker.propose(submit("a"))),
        asyncio.ensure_future(worker.state.caught_up()),
    ]
    await asyncio.sleep(0.1)
    await worker.state.aclose()
    for wait in waits:
        with pytest.raises(LogError, match="state is closed"):
            await wait
    await worker.stopped
    for late in (worker.propose(submit("b")), worker.state.caught_up()):
        with pytest.raises(LogError, match="state is closed"):
            await late
    assert not worker.state.connected
    assert worker.timer.pending == 0
    await worker.state.aclose()


async def test_a_cancelled_start_leaves_nothing_behind(workers):
    here = await workers.start(log=EpochLog(workers.store))
    await here.propose(submit("a"))
    tasks = asyncio.all_tasks()

    async def scenario():
        worker = Worker(workers.store, log=EpochLog(workers.store))
        try:
            await worker.state.open()
        finally:
            await worker.stop()
        assert worker.timer.pending == 0

    assert await cancel_sweep(scenario) >= 3
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() if task not in tasks} == set()


async def test_a_log_closed_beneath_it_ends_its_run(workers):
    worker = await workers.start()
    await MemoryLog.aclose(worker.log.inner)
    with pytest.raises(LogError, match=r"log is closed|was closed"):
        await worker.stopped


async def test_a_new_store_begins_at_the_level_of_its_first_worker(workers):
    here, there = await workers.start(), await workers.start()
    assert await settled(here, there)
    assert (here.state.fold.level, there.state.fold.level) == (3, 3)
    assert workers.store.kinds()[0] == "SetLevel"

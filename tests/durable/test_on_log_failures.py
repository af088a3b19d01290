"""What a worker does about gaps, lost entries, damage, and a state that differs."""

import asyncio
import logging
from contextlib import closing

import pytest

from purgatory_async.cluster import LogDamaged, LogError, LogUnavailable
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.entries import SetLevel, SignalKey, WantItem
from purgatory_async.durable.fold.fold import FoldError
from purgatory_async.durable.fold.leases import TakerLeft
from purgatory_async.durable.fold.operations import OperationEnded
from tests.durable.log_workers import Worker, settled, submit

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])
SECOND = 1_000_000


def held_load(worker):
    """Hold back the next loads of a worker's state; returns the future that lets them go on."""
    goes_on = asyncio.get_running_loop().create_future()
    load = worker.log.inner.load

    async def held(*, below=None):
        await goes_on
        return await load(below=below)

    worker.log.inner.load = held
    return goes_on


async def test_a_worker_that_fell_behind_loads_the_state_again(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a", 100 * SECOND))
    await settled(here, there)
    there.log.deaf_s = 3
    for number in range(20):
        await here.propose(submit(f"o{number}"))
    workers.store.checkpoint_of(here.fold)
    await here.propose(SignalKey(key="o3"))
    there.log.deaf_s = 0
    there.log.cut()
    await there.state.caught_up()
    assert (there.state.recovery.gaps, len(there.loads)) == (1, 2)
    assert there.loads[1] == workers.store.checkpoint
    assert [effect.operation.id for effect in there.seen(OperationEnded)] == ["o3"]
    assert await settled(here, there)
    await asyncio.sleep(120)
    assert await settled(here, there)
    assert there.fold.operations.by_id["a"].state == "expired"


async def test_a_proposal_in_a_gap_is_unknown_at_once(workers):
    here, there = await workers.start(), await workers.start()
    await there.propose(submit("first"))
    there.log.deaf_s = 2
    await here.propose(submit("a"))
    proposing = asyncio.ensure_future(there.propose(submit("b")))
    await asyncio.sleep(0.1)
    while "b" not in here.fold.operations.by_id:
        await here.state.caught_up()
    workers.store.checkpoint_of(here.fold)
    with pytest.raises(LogUnavailable, match="the outcome is unknown"):
        await proposing
    await there.propose(submit("c"))
    await settled(here, there)
    assert {"a", "b", "c"} <= there.fold.operations.by_id.keys()


async def test_lost_entries_are_forgotten_by_every_worker(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a"))
    await settled(here, there)
    workers.store.checkpoint_of(here.fold)
    await here.propose(submit("b"))
    await settled(here, there)
    epoch = here.state.epoch
    workers.store.lose(1)
    await asyncio.sleep(5)
    await settled(here, there)
    for worker in (here, there):
        assert worker.state.epoch == workers.store.epoch != epoch
        assert worker.fold.operations.by_id.keys() == {"a"}
    await there.propose(submit("b"))
    await settled(here, there)


async def test_a_loss_during_a_load_gives_the_load_its_epoch(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a"))
    await settled(here, there)
    loading = held_load(there)
    for name in ("b", "c"):
        workers.store.lose(1)
        await asyncio.sleep(1)
        await here.propose(submit(name))
    workers.store.checkpoint_of(here.fold)
    saved = workers.store.checkpoint
    loading.set_result(None)
    await settled(here, there)
    loads = list(zip(there.epochs, there.loads, strict=True))
    assert (loads[1], {*loads[1:]}) == ((workers.store.epoch, saved), {(workers.store.epoch, saved)})


async def test_an_answer_from_before_a_loss_is_not_applied(workers):
    worker = await workers.start()
    await worker.propose(submit("a"))
    worker.log.answer_s = 1
    await worker.propose(submit("b"))
    workers.store.lose(1)
    await asyncio.sleep(2)
    assert worker.state.position == workers.store.position
    with closing(workers.store.folded()) as truth:
        assert worker.fold.running == truth.running


async def test_a_read_outlives_a_gap(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a"))
    await settled(here, there)
    there.log.deaf_s = 1
    await here.propose(submit("b"))
    reading = asyncio.ensure_future(there.state.caught_up())
    await asyncio.sleep(0.1)
    workers.store.checkpoint_of(here.fold)
    there.log.cut()
    await reading
    assert "b" in there.fold.operations.by_id


async def test_a_read_may_ask_while_entries_are_lost(workers):
    worker = await workers.start()
    await worker.propose(submit("a"))
    worker.log.late_s = 1
    reading = asyncio.ensure_future(worker.state.caught_up())
    await asyncio.sleep(0.1)
    workers.store.lose(1)
    await reading
    assert worker.state.connected


async def test_a_worker_is_not_connected_while_it_loads(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a"))
    there.log.deaf_s = 1
    await here.propose(submit("b"))
    await here.propose(submit("c"))
    workers.store.checkpoint_of(here.fold)
    loading = held_load(there)
    there.log.cut()
    await asyncio.sleep(3)
    assert not there.state.connected
    assert there.state.lag > 1
    with pytest.raises(LogUnavailable):
        await there.state.caught_up()
    loading.set_result(None)
    await settled(here, there)
    assert there.state.connected


async def test_a_worker_is_not_connected_until_it_read_the_log(workers):
    here = await workers.start()
    await here.propose(submit("a"))
    there = Worker(workers.store)
    there.log.deaf_s = 1
    opening = asyncio.ensure_future(there.state.open())
    await asyncio.sleep(0.5)
    assert there.loads == [0]
    assert not there.state.connected
    await opening
    assert there.state.connected
    await there.stop()


async def test_a_state_that_differs_is_loaded_again_everywhere(workers, caplog):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a"))
    workers.store.checkpoint_of(here.fold, keep=100)
    await here.propose(submit("b", 3600 * SECOND))
    await settled(here, there)
    there.fold.remember(b"other digest")
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(60)
    assert await settled(here, there)
    assert (here.state.recovery.diverged, there.state.recovery.diverged) == (1, 1)
    assert here.fold.running == there.fold.running
    assert all(b"other digest".hex() in record.getMessage() for record in caplog.records)
    assert len(caplog.records) == 2
    await there.propose(SignalKey(key="b"))
    await settled(here, there)
    await asyncio.sleep(120)
    assert (here.state.recovery.diverged, there.state.recovery.diverged) == (1, 1)


@pytest.mark.parametrize("bad", [b"no JSON", b'{"k":"other"}', b'{"k":"tick","more":1}'])
async def test_a_damaged_entry_ends_the_run_with_its_position(workers, bad):
    worker = await workers.start()
    await worker.propose(submit("a"))
    position = workers.store.append([bad]).first
    with pytest.raises(LogDamaged, match=f"entry {position}: ") as caught:
        await worker.stopped
    assert caught.value.position == position
    assert not worker.state.connected
    for late in (worker.propose(submit("b")), worker.state.caught_up()):
        with pytest.raises(LogError, match=f"entry {position}: "):
            await late
    again = Worker(workers.store)
    with pytest.raises(LogDamaged, match=f"entry {position}: "):
        await again.start()
    assert again.timer.pending == 0


async def test_a_higher_level_ends_the_run_with_its_position(workers):
    worker = await workers.start()
    worker.state.post(SetLevel(level=4))
    with pytest.raises(FoldError, match=r"level must be at most 3 at position \d+, got 4; upgrade"):
        await worker.stopped
    again = Worker(workers.store)
    with pytest.raises(FoldError, match="level must be at most 3"):
        await again.start()


async def test_a_damaged_checkpoint_is_named_by_position(workers):
    worker = await workers.start()
    await worker.propose(submit("a"))
    whole = b"".join(parts(worker.fold))
    position = worker.state.position
    workers.store.save(position, [whole.replace(b'"a"', b'"b"')], 0)
    again = Worker(workers.store)
    with pytest.raises(LogDamaged, match=f"checkpoint {position} is damaged: ") as caught:
        await again.start()
    assert caught.value.position == position


async def test_an_error_of_the_service_ends_the_run(workers):
    worker = await workers.start()

    def broken(result, effects):
        raise RuntimeError("cannot note it")

    worker.state._applied = broken
    with pytest.raises(LogError, match="state has failed: cannot note it"):
        await worker.propose(submit("a"))
    with pytest.raises(RuntimeError, match="cannot note it"):
        await worker.stopped


async def test_a_stopped_worker_finds_its_takers_gone(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(WantItem(queue="q", lease_id="l", lease_us=SECOND, wait_us=60 * SECOND, max=1))
    here.log.away = True  # as stopped: nothing comes, nothing goes
    await asyncio.sleep(10)
    assert [effect.why for effect in there.seen(TakerLeft)] == ["silent"]
    here.log.away = False
    await asyncio.sleep(5)
    await settled(here, there)
    assert [effect.lease_id for effect in here.seen(TakerLeft)] == ["l"]
    await here.propose(WantItem(queue="q", lease_id="m", lease_us=SECOND, wait_us=50 * SECOND, max=1))
    await asyncio.sleep(30)
    assert "m" in there.fold.queues.takers


async def test_an_engine_that_comes_back_is_used_again(workers):
    worker = await workers.start()
    await worker.propose(submit("a", 30 * SECOND))
    worker.log.away = True
    with pytest.raises(LogUnavailable):
        await worker.propose(submit("b"))
    await asyncio.sleep(120)
    assert not worker.state.connected
    worker.log.away = False
    await asyncio.sleep(5)
    await worker.state.caught_up()
    assert worker.state.connected
    assert [effect.operation.id for effect in worker.seen(OperationEnded)] == ["a"]
    await worker.propose(submit("c"))

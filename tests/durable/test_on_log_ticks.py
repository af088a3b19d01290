"""When what is due happens: never early in log time, and late by no more than stated."""

import asyncio

import pytest
from msgspec import Raw

from purgatory_async.durable.fold.entries import EndLease, ExtendLease, PutItem, SignalKey, WantItem
from purgatory_async.durable.fold.leases import ItemLeased, TakerLeft
from purgatory_async.durable.fold.operations import OperationEnded
from purgatory_async.durable.state import Guard
from tests.durable.log_workers import settled, submit

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])
SECOND = 1_000_000
HOUR = 3600 * SECOND


def lateness(worker):
    """Microseconds from each deadline to the end, on the engine's clock."""
    ends = [effect.operation for effect in worker.seen(OperationEnded)]
    return [operation.ended_us - operation.deadline_us for operation in ends]


def noticed(worker):
    """Microseconds from each deadline to the entry in whose step the operation expired."""
    return [
        at_us - effect.operation.deadline_us
        for at_us, effect in worker.effects
        if isinstance(effect, OperationEnded)
    ]


async def test_the_worker_that_submitted_it_expires_it(workers):
    here, there = await workers.start(), await workers.start()
    for number in range(50):
        await here.propose(submit(f"o{number}", 100_000 + 37_777 * number))
    await asyncio.sleep(5)
    for worker in (here, there):
        assert len(noticed(worker)) == 50
        assert all(0 <= late <= 8_000 for late in noticed(worker))
    assert there.state.ticks.appended == 0
    assert 40 <= here.state.ticks.appended <= 55


@pytest.mark.parametrize("late_s", [0.0, 0.05])
async def test_another_worker_expires_it_half_a_second_later(workers, late_s):
    here, there = await workers.start(), await workers.start()
    there.log.late_s = late_s
    for number in range(20):
        await here.propose(submit(f"o{number}", SECOND + 777_777 * number))
    await here.stop()
    await asyncio.sleep(30)
    assert len(noticed(there)) == 20
    assert all(0 <= late <= 500_000 + 2 * SECOND * late_s + 8_000 for late in noticed(there))
    assert 10 <= there.state.ticks.appended <= 60  # some only move the wheel


@pytest.mark.parametrize("lives", [True, False])
async def test_hidden_items_and_extended_leases_end_by_ticks(workers, lives):
    here, there = await workers.start(), await workers.start()
    await here.propose(PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    await here.propose(PutItem(queue="q", item=Raw(b"2"), delay_us=2 * SECOND))
    await here.propose(WantItem(queue="q", lease_id="l", lease_us=SECOND, max=1))
    await here.propose(ExtendLease(lease_id="l", lease_us=3 * SECOND))
    end_us = there.fold.at_us + 3 * SECOND
    if not lives:
        await here.stop()
    await asyncio.sleep(2.55)
    assert [bytes(item.text) for item in there.fold.queues.by_name["q"].ready] == [b"2"]
    assert "l" in there.fold.queues.leases
    await asyncio.sleep(1)
    assert [item.attempts for item in there.fold.queues.by_name["q"].ready] == [1, 0]
    assert there.fold.at_us <= end_us + (10_000 if lives else 510_000)


async def test_leases_and_waits_end_by_the_workers_ticks(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(WantItem(queue="q", lease_id="a", lease_us=SECOND, wait_us=SECOND, max=1))
    await here.propose(WantItem(queue="p", lease_id="b", lease_us=SECOND, wait_us=SECOND // 2, max=1))
    await there.propose(PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    lent_us = there.fold.at_us
    await asyncio.sleep(0.6)
    assert [effect.lease_id for effect in here.seen(TakerLeft)] == ["b"]
    await there.propose(WantItem(queue="q", lease_id="c", lease_us=SECOND, wait_us=10 * SECOND, max=1))
    await asyncio.sleep(1)
    await settled(here, there)
    again = [(at_us, effect.lease.id) for at_us, effect in here.effects if isinstance(effect, ItemLeased)]
    assert [name for _, name in again] == ["a", "c"]
    assert SECOND <= again[1][0] - lent_us <= SECOND + 8_000
    await there.propose(EndLease(lease_id="c"))
    await settled(here, there)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_workers_clocks_may_be_hours_off(workers, hours):
    here, there = await workers.start(hours=hours), await workers.start(hours=-5 * hours)
    await asyncio.gather(*(here.propose(submit(f"o{number}", SECOND * number)) for number in range(1, 8)))
    await asyncio.sleep(10)
    assert len(noticed(there)) == 7
    assert all(0 <= late <= 8_000 for late in noticed(there))


@pytest.mark.parametrize("step", [-600 * SECOND, -3 * SECOND, 3 * SECOND, HOUR])
async def test_the_engines_clock_may_step(workers, step):
    here, there = await workers.start(), await workers.start()
    begun_us = workers.store.now_us()
    for number in range(1, 30):
        await here.propose(submit(f"o{number}", SECOND * number))
    await asyncio.sleep(9.995)
    await here.propose(
        SignalKey(key="k")
    )  # a clock set back now stands still shortly before the next deadline
    workers.store.origin_us += step
    before = workers.store.position
    await asyncio.sleep(max(-step, 0) / SECOND + 40)
    assert len(noticed(here)) == len(noticed(there)) == 29
    assert all(late >= 0 for late in lateness(here))
    # A clock that stands still must not be asked again and again.
    entries = workers.store.position - before
    assert entries <= 100 + 3 * max(-step, 0) / SECOND
    stepped_us = workers.store.now_us() - begun_us
    assert stepped_us > 0
    if step < 0:
        assert all(late <= 1_100_000 for late in noticed(here))
    else:
        assert all(late <= step + 2 * SECOND for late in noticed(here))


async def test_withheld_ticks_make_it_late_but_lose_nothing(workers):
    here, there = await workers.start(), await workers.start()
    await here.propose(submit("a", SECOND))
    await there.propose(SignalKey(key="b"))
    for worker in (here, there):
        worker.log.away = True
    await asyncio.sleep(60)
    assert noticed(here) == []
    assert here.fold.operations.by_id["a"].state == "pending"
    for worker in (here, there):
        worker.log.away = False
    await asyncio.sleep(5)
    await settled(here, there)
    (late,) = lateness(here)
    assert late < 1_000  # it expired at its deadline in log time
    (noticed_us,) = noticed(here)
    assert 59 * SECOND <= noticed_us <= 62 * SECOND


async def test_many_deadlines_share_ticks(workers):
    worker = await workers.start()
    await asyncio.gather(
        *(worker.propose(submit(f"o{number}", SECOND + 1000 * number)) for number in range(3000))
    )
    before = worker.state.ticks.appended
    await asyncio.sleep(5)
    assert len(noticed(worker)) == 3000
    assert worker.state.ticks.appended - before <= 3.0 * 200 + 10
    assert all(0 <= late <= 10_000 for late in noticed(worker))


async def test_what_ended_before_its_deadline_is_not_kept(workers):
    worker = await workers.start()
    await worker.propose(submit("pending", 50 * SECOND))
    for batch in range(3):
        for number in range(2000):
            worker.state.post(submit(f"o{batch}-{number}", 60 * SECOND))
            worker.state.post(SignalKey(key=f"o{batch}-{number}"))
        await worker.state.propose(SignalKey(key="k"), Guard())
    assert len(worker.state.ticks._own) <= 2048
    await worker.propose(SignalKey(key="pending"))
    assert worker.fold.next_us is None
    await asyncio.sleep(100)
    assert worker.state.ticks.appended == 0


async def test_a_far_deadline_costs_few_ticks(workers):
    worker = await workers.start()
    await worker.propose(submit("a", 3 * HOUR))
    await asyncio.sleep(3 * 3600 + 5)
    assert len(noticed(worker)) == 1
    assert worker.state.ticks.appended <= 10


@pytest.mark.parametrize("saved", [False, True])
async def test_what_a_start_finds_ends_in_time(workers, saved):
    here = await workers.start()
    await here.propose(WantItem(queue="q", lease_id="leased", lease_us=2000 * SECOND, wait_us=SECOND, max=1))
    await here.propose(PutItem(queue="q", item=Raw(b"1"), delay_us=0))
    await here.propose(submit("overdue", 30 * SECOND))
    await here.propose(submit("due", 2500 * SECOND))
    lease, due = here.fold.queues.leases["leased"], here.fold.operations.by_id["due"]
    if saved:
        workers.store.checkpoint_of(here.fold)
    await here.stop()
    await asyncio.sleep(1003.7)  # its heartbeats are not at the deadlines
    there = await workers.start()
    await asyncio.sleep(0.02)
    assert [effect.operation.id for effect in there.seen(OperationEnded)] == ["overdue"]
    for until_us, left in ((lease.until_us, 1), (due.deadline_us, 0)):
        await asyncio.sleep((until_us - workers.store.now_us()) / SECOND)
        await asyncio.sleep(0.02)
        assert there.fold.at_us >= until_us
        assert there.fold.operations.purgatory.pending == left
    assert (there.fold.queues.kept, len(there.fold.queues.leases)) == (1, 0)


async def test_a_started_worker_leaves_ticks_to_those_that_live(workers):
    here = await workers.start()
    for number in range(50):
        await here.propose(submit(f"o{number}", SECOND + 37_777 * number))
    there = await workers.start()
    await asyncio.sleep(5)
    assert len(noticed(there)) == 50
    assert all(0 <= late <= 8_000 for late in noticed(there))
    assert there.state.ticks.appended == 0

"""What every wait in a pattern keeps to: it ends once, leaves nothing, and disturbs no other when cancelled."""

import asyncio
from math import inf

import pytest

from purgatory_async import DelayedOperation, PurgatoryClosed, PurgatoryError, PurgatoryFull
from purgatory_async.testing import cancel_sweep, settle
from tests.core.recording import errors_of_loop
from tests.patterns.table import TIMEOUT, WAITS, Waits, kind_of
from tests.patterns.waiters import Waiter, after, each_way, let_pass, waiting
from tests.patterns.waiters import ends as got_by

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.parametrize("make", WAITS, ids=lambda row: row.__name__.removesuffix("Waits")),
]

EVENTS = {
    "completed": Waits.complete.__name__,
    "failed": Waits.fail.__name__,
    "expired": Waits.expire.__name__,
    "cancelled for its key": Waits.cancel_keys.__name__,
    "closed": Waits.close.__name__,
}
COUNTED = ("completed", "failed")
each_event = pytest.mark.parametrize("event", EVENTS)


def happen(row, event):
    return getattr(row, EVENTS[event])()


async def entered(row, *ways):
    """Waiting tasks, each to be cancelled in its way."""
    waiters = [way(row.enter()) for way in ways]
    await settle()
    return waiters


async def ends(waiters):
    return [kind_of(end) for end in await got_by(waiters)]


async def check_one_more(row):
    """See that it goes on as before."""
    waiters = await entered(row, Waiter)
    assert row.complete() == 1
    assert await ends(waiters) == ["completed"]
    row.check_empty()


# How it ends.


@each_event
async def test_an_event_ends_every_wait_and_leaves_nothing(make, event):
    row = make()
    waiters = await entered(row, Waiter, Waiter, Waiter)
    assert (row.purgatory.pending, row.timer.pending) == (3, row.deadlines)
    assert getattr(row.pattern, "timer", row.timer) is row.timer
    count = happen(row, event)
    if event in COUNTED:
        assert count == 3
    assert await ends(waiters) == [event] * 3
    assert event != "failed" or {waiter.got for waiter in waiters} == {row.lost}
    row.check_empty()
    if event == "closed":
        with pytest.raises(PurgatoryClosed):
            await row.enter()
        row.check_empty()
    else:
        await check_one_more(row)


async def test_an_event_after_the_deadline_in_its_tick_is_too_late(make):
    row = make()
    waiters = await entered(row, Waiter, Waiter)
    row.expire()
    assert row.complete() == 0
    assert await ends(waiters) == ["expired"] * 2
    row.check_empty()


async def test_an_event_before_the_deadline_in_its_tick_counts(make):
    row = make()
    waiters = await entered(row, Waiter, Waiter)
    assert row.complete() == 2
    row.expire()
    assert await ends(waiters) == ["completed"] * 2
    row.check_empty()


# Its time.


@pytest.mark.parametrize("timeout", [0.001, TIMEOUT, 3e9])
async def test_a_wait_expires_with_its_timeout_and_not_before(make, timeout):
    row = make()
    (waiter,) = await waiting(row.enter(timeout))
    row.clock.advance(timeout - 0.001)
    await settle()
    assert not waiter.done
    row.clock.advance(0.001)
    assert await ends([waiter]) == ["expired"]
    row.check_empty()


@pytest.mark.parametrize("timeout", [0, -1])
async def test_without_time_a_wait_ends_in_the_next_turn(make, timeout):
    row = make()
    waiters = [Waiter(row.enter(timeout)) for _ in range(2)]
    assert await ends(waiters) == ["expired"] * 2
    row.check_empty()


@pytest.mark.parametrize("timeout", [None, inf])
async def test_without_a_timeout_a_wait_has_all_time(make, timeout):
    row = make()
    (waiter,) = await waiting(row.enter(timeout))
    assert row.timer.next_deadline is None
    row.clock.advance(3e9)
    await settle()
    assert not waiter.done
    assert row.complete() == 1
    assert await ends([waiter]) == ["completed"]
    row.check_empty()


# Cancelled.


@each_way
async def test_cancelled_it_leaves_and_the_others_wait_on(make, way):
    row = make()
    waiters = await entered(row, Waiter, way, Waiter)
    waiters[1].cancel()
    await let_pass(way.lead)
    await settle()
    assert (row.purgatory.pending, row.timer.pending) == (2, row.deadlines)
    assert row.complete() == 2
    assert await ends(waiters) == ["completed", "cancelled", "completed"]
    row.check_empty()


@each_way
@each_event
async def test_cancelled_just_before_an_event_it_takes_no_part(make, event, way):
    row, counts = make(), []
    waiters = await entered(row, Waiter, way, Waiter)
    waiters[1].cancel_before(lambda: counts.append(happen(row, event)))
    assert await ends(waiters) == [event, "cancelled", event]
    if event in COUNTED:
        assert counts == [2]
    row.check_empty()


@each_way
@each_event
async def test_cancelled_just_after_an_event_it_took_part(make, event, way):
    row, counts = make(), []
    waiters = await entered(row, Waiter, way, Waiter)
    waiters[1].cancel_after(lambda: counts.append(happen(row, event)))
    assert await ends(waiters) == [event, "cancelled" if way.reached_late else event, event]
    if event in COUNTED:
        assert counts == [3]
    row.check_empty()


@each_event
async def test_all_cancelled_before_an_event_no_wait_takes_part(make, event):
    row = make()
    waiters = await entered(row, Waiter, Waiter)
    for waiter in waiters:
        waiter.cancel()
    count = happen(row, event)
    if event in COUNTED:
        assert count == 0
    assert await ends(waiters) == ["cancelled"] * 2
    row.check_empty()


async def test_cancelled_before_its_first_step_it_never_waited(make):
    row = make()
    task = asyncio.Task(row.enter())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    row.check_empty()


@each_event
@pytest.mark.parametrize("passes", [1, 2, 3, 12])
async def test_cancelled_at_any_point_it_leaves_others_alone(make, event, passes):
    runs = []

    async def scenario():
        row, happened = make(), []
        others = [Waiter(row.enter()) for _ in range(2)]
        runs.append((row, others, happened))
        await asyncio.sleep(0)
        after(passes, lambda: happened.append(happen(row, event)))
        try:
            assert kind_of(await row.enter()) == event
        except Exception as ended:
            if kind_of(ended) != event:
                raise
        finally:
            left = sum(not other.done for other in others)
            assert row.purgatory.pending <= left, "it still waits"
            assert row.timer.pending <= row.deadlines + row.spare, "its deadline is still pending"

    reports = errors_of_loop()
    points = await cancel_sweep(scenario)
    assert points >= 2
    assert len(runs) == 1 + 2 * points
    for row, others, happened in runs:
        await settle()
        if not happened:  # its cancellation came first
            happen(row, event)
        assert await ends(others) == [event] * 2
        await settle()
        row.check_empty()
    assert reports == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Refused.


async def test_draining_refuses_newcomers_and_lets_waits_end(make):
    row = make()
    waiters = await entered(row, Waiter, Waiter)
    drained = asyncio.create_task(row.purgatory.drain())
    await settle()
    with pytest.raises(PurgatoryClosed, match="draining"):
        await row.enter()
    assert (row.purgatory.pending, row.timer.pending) == (2, row.deadlines)
    assert row.complete() == 2
    assert await ends(waiters) == ["completed"] * 2
    assert await drained is True
    row.check_empty()


async def test_a_full_purgatory_refuses_it_and_registers_nothing(make):
    if not make.limited:
        pytest.skip("its purgatory is its own, and unlimited")
    row = make(max_pending=1)
    other = DelayedOperation()
    row.purgatory.try_complete_else_watch(other, ["another's"])
    with pytest.raises(PurgatoryFull, match="1"):
        await row.enter()
    assert (row.purgatory.pending, row.timer.pending) == (1, 0)
    other.cancel()
    waiters = await entered(row, Waiter)
    with pytest.raises(PurgatoryFull):
        await row.enter()
    assert row.complete() >= 1
    assert await ends(waiters) == ["completed"]
    row.check_empty()


async def test_a_full_timer_refuses_it_and_registers_nothing(make):
    row = make(timers=1)
    bell = row.timer.call_later(60, print)
    with pytest.raises(PurgatoryFull, match="timer is full"):
        await row.enter()
    assert (row.purgatory.pending, row.timer.pending) == (0, 1)
    bell.cancel()
    await check_one_more(row)


async def test_a_closed_timer_ends_waits_and_refuses_new_ones(make):
    row = make()
    waiters = await entered(row, Waiter, Waiter)
    row.timer.close()
    assert await ends(waiters) == ["closed"] * 2
    with pytest.raises(PurgatoryClosed):
        await row.enter()
    assert row.purgatory.pending == 0


async def test_without_a_deadline_waits_outlive_their_timer(make):
    row = make()
    (waiter,) = await waiting(row.enter(None))
    row.timer.close()
    await settle()
    assert row.complete() == 1
    assert await ends([waiter]) == ["completed"]


async def test_another_loop_is_refused_and_registers_nothing(make):
    row = make()
    waiters = await entered(row, Waiter)

    async def elsewhere():
        with pytest.raises(PurgatoryError, match="belongs to"):
            await row.enter()
        if make.asks:
            with pytest.raises(PurgatoryError, match="belongs to"):
                row.complete()

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert (row.purgatory.pending, row.timer.pending) == (1, row.deadlines)
    assert row.complete() >= 1
    assert await ends(waiters) == ["completed"]
    row.check_empty()

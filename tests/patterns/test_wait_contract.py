"""What every wait in a pattern keeps to: it ends once, leaves nothing, and disturbs no other when cancelled."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, PurgatoryClosed, PurgatoryError, PurgatoryFull
from purgatory_async.testing import cancel_sweep, settle
from tests.core.recording import errors_of_loop
from tests.patterns.guests import Guest, after_passes, each_way
from tests.patterns.waits import SUBJECTS, TIMEOUT, Subject, WatermarkWaits, kind_of

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.parametrize("make", SUBJECTS, ids=lambda subject: subject.__name__.removesuffix("Waits")),
]

EVENTS = {
    "completed": Subject.complete.__name__,
    "failed": Subject.fail.__name__,
    "expired": Subject.expire.__name__,
    "cancelled for its key": Subject.cancel_keys.__name__,
    "closed": Subject.close.__name__,
}
COUNTED = ("completed", "failed")
each_event = pytest.mark.parametrize("event", EVENTS)


def happen(subject, event):
    return getattr(subject, EVENTS[event])()


async def entered(subject, *ways):
    """Waiting tasks, each to be cancelled in its way."""
    guests = [way(subject.enter()) for way in ways]
    await settle()
    return guests


async def ends(guests):
    return [kind_of(await guest.end()) for guest in guests]


# How it ends.


@each_event
async def test_an_event_ends_every_wait_and_leaves_nothing(make, event):
    subject = make()
    guests = await entered(subject, Guest, Guest, Guest)
    assert (subject.purgatory.pending, subject.timer.pending) == (3, subject.deadlines)
    count = happen(subject, event)
    if event in COUNTED:
        assert count == 3
    assert await ends(guests) == [event] * 3
    assert event != "failed" or {guest.task.exception() for guest in guests} == {subject.lost}
    subject.check_empty()
    if event == "closed":
        with pytest.raises(PurgatoryClosed):
            await subject.enter()
    else:
        guests = await entered(subject, Guest)
        assert subject.complete() == 1
        assert await ends(guests) == ["completed"]
    subject.check_empty()


async def test_a_wait_expires_with_its_timeout_and_not_before(make):
    subject = make()
    guests = await entered(subject, Guest)
    subject.clock.advance(TIMEOUT - 0.001)
    await settle()
    assert not guests[0].task.done()
    subject.clock.advance(0.001)
    assert await ends(guests) == ["expired"]
    subject.check_empty()


async def test_an_event_after_the_deadline_in_its_tick_is_too_late(make):
    subject = make()
    guests = await entered(subject, Guest, Guest)
    subject.expire()
    assert subject.complete() == 0
    assert await ends(guests) == ["expired"] * 2
    subject.check_empty()


async def test_an_event_before_the_deadline_in_its_tick_counts(make):
    subject = make()
    guests = await entered(subject, Guest, Guest)
    assert subject.complete() == 2
    subject.expire()
    assert await ends(guests) == ["completed"] * 2
    subject.check_empty()


# Cancelled.


@each_way
async def test_cancelled_it_leaves_and_the_others_wait_on(make, guest):
    subject = make()
    guests = await entered(subject, Guest, guest, Guest)
    guests[1].cancel()
    await settle()
    assert (subject.purgatory.pending, subject.timer.pending) == (2, subject.deadlines)
    assert subject.complete() == 2
    assert await ends(guests) == ["completed", "cancelled", "completed"]
    subject.check_empty()


@each_way
@each_event
async def test_cancelled_just_before_an_event_it_takes_no_part(make, event, guest):
    subject, counts = make(), []
    guests = await entered(subject, Guest, guest, Guest)
    guests[1].cancel_before(lambda: counts.append(happen(subject, event)))
    assert await ends(guests) == [event, "cancelled", event]
    if event in COUNTED:
        assert counts == [2]
    subject.check_empty()


@each_way
@each_event
async def test_cancelled_just_after_an_event_it_took_part(make, event, guest):
    subject, counts = make(), []
    guests = await entered(subject, Guest, guest, Guest)
    guests[1].cancel_after(lambda: counts.append(happen(subject, event)))
    assert await ends(guests) == [event, "cancelled" if guest.reached_late else event, event]
    if event in COUNTED:
        assert counts == [3]
    subject.check_empty()


@each_event
async def test_all_cancelled_before_an_event_no_wait_takes_part(make, event):
    subject = make()
    guests = await entered(subject, Guest, Guest)
    for guest in guests:
        guest.cancel()
    count = happen(subject, event)
    if event in COUNTED:
        assert count == 0
    assert await ends(guests) == ["cancelled"] * 2
    subject.check_empty()


async def test_cancelled_before_its_first_step_it_never_waited(make):
    subject = make()
    task = asyncio.Task(subject.enter())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    subject.check_empty()


@each_event
@pytest.mark.parametrize("passes", [1, 2, 3, 12])
async def test_cancelled_at_any_point_it_leaves_others_alone(make, event, passes):
    runs = []

    async def scenario():
        subject, happened = make(), []
        others = [Guest(subject.enter()) for _ in range(2)]
        runs.append((subject, others, happened))
        await asyncio.sleep(0)
        after_passes(passes, lambda: happened.append(happen(subject, event)))
        try:
            assert kind_of(await subject.enter()) == event
        except Exception as ended:
            if kind_of(ended) != event:
                raise
        finally:
            left = sum(not other.task.done() for other in others)
            assert subject.purgatory.pending <= left, "it still waits"
            assert subject.timer.pending <= subject.deadlines + subject.spare, "its deadline is still pending"

    reports = errors_of_loop()
    points = await cancel_sweep(scenario)
    assert points >= 2
    assert len(runs) == 1 + 2 * points
    for subject, others, happened in runs:
        await settle()
        if not happened:  # its cancellation came first
            happen(subject, event)
        assert await ends(others) == [event] * 2
        await settle()
        subject.check_empty()
    assert reports == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Refused.


async def test_draining_refuses_newcomers_and_lets_waits_end(make):
    subject = make()
    guests = await entered(subject, Guest, Guest)
    drained = asyncio.create_task(subject.purgatory.drain())
    await settle()
    with pytest.raises(PurgatoryClosed, match="draining"):
        await subject.enter()
    assert (subject.purgatory.pending, subject.timer.pending) == (2, subject.deadlines)
    assert subject.complete() == 2
    assert await ends(guests) == ["completed"] * 2
    assert await drained is True
    subject.check_empty()


async def test_a_full_purgatory_refuses_it_and_registers_nothing(make):
    if make is WatermarkWaits:
        pytest.skip("its purgatory is its own, and unlimited")
    subject = make(max_pending=1)
    other = DelayedOperation()
    subject.purgatory.try_complete_else_watch(other, ["another's"])
    with pytest.raises(PurgatoryFull, match="1"):
        await subject.enter()
    assert (subject.purgatory.pending, subject.timer.pending) == (1, 0)
    other.cancel()
    guests = await entered(subject, Guest)
    with pytest.raises(PurgatoryFull):
        await subject.enter()
    assert subject.complete() >= 1
    assert await ends(guests) == ["completed"]
    subject.check_empty()


async def test_a_full_timer_refuses_it_and_registers_nothing(make):
    subject = make(timers=1)
    bell = subject.timer.call_later(60, print)
    with pytest.raises(PurgatoryFull, match="timer is full"):
        await subject.enter()
    assert (subject.purgatory.pending, subject.timer.pending) == (0, 1)
    bell.cancel()
    guests = await entered(subject, Guest)
    assert subject.complete() >= 1
    assert await ends(guests) == ["completed"]
    subject.check_empty()


async def test_a_closed_timer_ends_waits_and_refuses_new_ones(make):
    subject = make()
    guests = await entered(subject, Guest, Guest)
    subject.timer.close()
    assert await ends(guests) == ["closed"] * 2
    with pytest.raises(PurgatoryClosed):
        await subject.enter()
    assert subject.purgatory.pending == 0


async def test_another_loop_is_refused_and_registers_nothing(make):
    subject = make()
    guests = await entered(subject, Guest)

    async def elsewhere():
        with pytest.raises(PurgatoryError, match="belongs to"):
            await subject.enter()

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert (subject.purgatory.pending, subject.timer.pending) == (1, subject.deadlines)
    assert subject.complete() >= 1
    assert await ends(guests) == ["completed"]
    subject.check_empty()

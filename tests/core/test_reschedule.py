"""An operation expires at another time than it was to, by its own verb or the purgatory's."""

import asyncio
from math import inf, nan

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryFull,
    Timer,
)
from purgatory_async.events import OperationEnded, OperationRescheduled
from purgatory_async.testing import ManualClock, settle


@pytest.fixture
def events():
    return []


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def purgatory(clock, events):
    class Diary:
        def notify(self, event):
            events.append(event)

    made = Purgatory(timer=Timer(clock=clock), observer=Diary())
    yield made
    made.check_invariants()
    made.timer.check_invariants()
    made.close()


VERBS = {
    "by itself": lambda purgatory, operation, timeout: operation.reschedule(timeout),
    "by the purgatory": lambda purgatory, operation, timeout: purgatory.reschedule(operation, timeout),
}


@pytest.fixture(params=VERBS.values(), ids=VERBS)
def reschedule(request, purgatory):
    return lambda operation, timeout: request.param(purgatory, operation, timeout)


def watched(purgatory, timeout):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, ["k"])
    return operation


@pytest.mark.parametrize("before", [None, inf, 0.5, 5])
def test_it_expires_at_the_new_time_and_not_before(purgatory, reschedule, clock, events, before):
    operation = watched(purgatory, before)
    clock.advance(0.25)
    assert reschedule(operation, 10)
    clock.advance(9.999)
    assert operation.outcome is None
    clock.advance(0.001)
    assert operation.outcome is Outcome.EXPIRED
    ended = events[-1]
    assert isinstance(ended, OperationEnded)
    assert (ended.submitted_ns, ended.deadline_ns, ended.at_ns) == (0, 10_250_000_000, 10_250_000_000)


@pytest.mark.parametrize(
    ("timeout", "told_ns"), [(0.5, 500_000_000), (0, 0), (-1, 0), (None, None), (inf, None)]
)
def test_its_new_deadline_is_an_event(purgatory, reschedule, events, timeout, told_ns):
    operation = watched(purgatory, 1)
    purgatory.timer.clock.advance(0.25)
    reschedule(operation, timeout)
    moved = OperationRescheduled(operation=operation, operation_id=1, timeout_ns=told_ns, at_ns=250_000_000)
    assert events[1:] == [moved]


@pytest.mark.parametrize("never", [None, inf])
def test_without_a_deadline_it_stays(purgatory, reschedule, clock, events, never):
    operation = watched(purgatory, 1)
    assert reschedule(operation, never)
    clock.advance(1_000_000)
    assert operation.outcome is None
    purgatory.complete_for_key("k")
    assert events[-2].deadline_ns is None


def test_a_time_of_zero_ends_it_with_the_next_pass(purgatory, reschedule, clock):
    operation = watched(purgatory, 1)
    assert reschedule(operation, 0)
    assert operation.outcome is None
    clock.advance(0)
    assert operation.outcome is Outcome.EXPIRED


def test_it_goes_behind_those_with_the_same_deadline(purgatory, reschedule, clock, events):
    first, second = watched(purgatory, 1), watched(purgatory, 2)
    reschedule(first, 2)
    clock.advance(2)
    assert [event.operation for event in events if isinstance(event, OperationEnded)] == [second, first]


def test_the_purgatory_reschedules_only_what_is_pending_there(purgatory):
    new, ended = DelayedOperation(1), watched(purgatory, 1)
    ended.cancel()
    with_other = Purgatory(timer=purgatory.timer)
    other = watched(with_other, 1)
    assert not any(purgatory.reschedule(each, 5) for each in (new, ended, other))
    assert (new.timeout, ended.timeout, other.timeout) == (1, 1, 1)
    with_other.close()


@pytest.mark.parametrize("end", ["force_complete", "cancel", "expire", "close"])
def test_what_has_ended_is_not_rescheduled(purgatory, clock, events, end):
    operation = watched(purgatory, 1)
    {"expire": lambda: clock.advance(1), "close": purgatory.close}.get(end, getattr(operation, end, None))()
    outcome, told = operation.outcome, len(events)
    assert operation.reschedule(5) is False
    assert (operation.outcome, operation.timeout, len(events), purgatory.timer.pending) == (
        outcome,
        1,
        told,
        0,
    )
    with pytest.raises(ValueError, match="timeout"):
        operation.reschedule(nan)


@pytest.mark.parametrize("timeout", [5, 0.5, None, inf])
def test_before_it_is_watched_only_its_timeout_is_set(purgatory, clock, events, timeout):
    operation = DelayedOperation(1)
    assert operation.reschedule(timeout) is True
    assert (operation.timeout, events, purgatory.timer.pending) == (timeout, [], 0)
    clock.advance(3)
    purgatory.try_complete_else_watch(operation, ["k"])
    clock.advance(0.499)
    assert operation.outcome is None
    clock.advance(100)
    assert (operation.outcome is Outcome.EXPIRED) is (timeout not in (None, inf))


def test_a_first_check_may_set_the_timeout(purgatory, clock, events):
    class Slow(DelayedOperation):
        def try_complete(self):
            return not self.reschedule(7)

    operation = Slow(1)
    purgatory.try_complete_else_watch(operation, ["k"])
    assert (events[0].timeout_ns, len(events)) == (7_000_000_000, 1)
    clock.advance(6.999)
    assert operation.outcome is None
    clock.advance(0.001)
    assert operation.outcome is Outcome.EXPIRED


def test_a_check_may_put_its_operation_off(purgatory, clock):
    class WhileThereIsProgress(DelayedOperation):
        def try_complete(self):
            self.reschedule(1)
            return False

    operation = WhileThereIsProgress(1)
    purgatory.try_complete_else_watch(operation, ["k"])
    for _ in range(10):
        clock.advance(0.999)
        purgatory.check_and_complete("k")
    clock.advance(0.999)
    assert (operation.outcome, clock.time()) == (None, pytest.approx(10.989))
    clock.advance(0.001)
    assert operation.outcome is Outcome.EXPIRED


def test_a_bad_timeout_changes_nothing(purgatory, reschedule, clock):
    operation = watched(purgatory, 1)
    with pytest.raises(ValueError, match="timeout"):
        reschedule(operation, nan)
    clock.advance(1)
    assert operation.outcome is Outcome.EXPIRED


@pytest.mark.parametrize("later", [1, None, inf])
def test_one_that_is_due_in_the_same_pass_is_spared(purgatory, reschedule, clock, later):
    class First(DelayedOperation):
        def on_expiration(self):
            reschedule(second, later)

    purgatory.try_complete_else_watch(First(1), ["k"])
    second = watched(purgatory, 1)
    clock.advance(1)
    assert second.outcome is None
    clock.advance(1)
    assert second.outcome is (Outcome.EXPIRED if later == 1 else None)


@pytest.mark.parametrize("never", [None, inf])
def test_one_that_was_to_expire_at_once_can_stay(purgatory, reschedule, clock, never):
    operation = watched(purgatory, 0)
    reschedule(operation, never)
    clock.advance(1)
    assert (operation.outcome, purgatory.timer.pending, purgatory.timer.next_deadline) == (None, 0, None)
    reschedule(operation, 1)
    clock.advance(1)
    assert operation.outcome is Outcome.EXPIRED


# A full timer, a closed one.


@pytest.fixture
def narrow(clock, events):
    """On a timer with room for one deadline."""

    class Diary:
        def notify(self, event):
            events.append(event)

    made = Purgatory(timer=Timer(clock=clock, max_pending=1), observer=Diary())
    yield made
    made.check_invariants()
    made.timer.check_invariants()
    made.close()


def test_on_a_full_timer_one_with_a_deadline_keeps_its_room(narrow, clock):
    operation = watched(narrow, 1)
    assert [operation.reschedule(timeout) for timeout in (5, 0, -1, 2)] == [True] * 4
    assert narrow.timer.pending == 1
    clock.advance(2)
    assert (operation.outcome, narrow.timer.pending) == (Outcome.EXPIRED, 0)


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("timeout", [None, inf])
def test_on_a_full_timer_one_without_a_deadline_gets_none(narrow, clock, events, timeout, verb):
    operation, other = watched(narrow, timeout), watched(narrow, 1)
    told = len(events)
    with pytest.raises(PurgatoryFull):
        verb(narrow, operation, 0.5)
    assert (operation.timeout, operation.outcome, len(events), narrow.timer.pending) == (
        timeout,
        None,
        told,
        1,
    )
    assert other.reschedule(None)
    assert narrow.timer.pending == 0
    assert verb(narrow, operation, 0.5)
    clock.advance(1)
    assert (operation.outcome, other.outcome) == (Outcome.EXPIRED, None)


def test_on_a_closed_timer_nothing_changes(narrow, clock, events):
    operation = watched(narrow, None)
    narrow.timer.close()
    with pytest.raises(PurgatoryClosed):
        operation.reschedule(1)
    assert (operation.timeout, operation.outcome, len(events)) == (None, None, 1)
    assert operation.reschedule(inf)
    assert (operation.timeout, len(events)) == (inf, 2)


# A wait.


@pytest.mark.asyncio
@pytest.mark.parametrize("until", [None, lambda: False])
async def test_an_expired_wait_names_its_newest_timeout(purgatory, clock, until):
    task = asyncio.create_task(purgatory.wait("k", until=until, timeout=1))
    await settle()
    (wait,) = purgatory.operations("k")
    assert wait.reschedule(3)
    clock.advance(2.999)
    await settle()
    assert not task.done()
    clock.advance(0.001)
    with pytest.raises(OperationExpired, match="within 3 s") as caught:
        await task
    assert caught.value.timeout == 3

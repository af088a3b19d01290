"""A pending operation expires at another time than it was to."""

from math import inf, nan

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.events import OperationEnded, OperationRescheduled
from purgatory_async.testing import ManualClock


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


def watched(purgatory, timeout):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, ["k"])
    return operation


@pytest.mark.parametrize("before", [None, inf, 0.5, 5])
def test_it_expires_at_the_new_time_and_not_before(purgatory, clock, events, before):
    operation = watched(purgatory, before)
    clock.advance(0.25)
    assert purgatory.reschedule(operation, 10)
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
def test_its_new_deadline_is_an_event(purgatory, clock, events, timeout, told_ns):
    operation = watched(purgatory, 1)
    clock.advance(0.25)
    purgatory.reschedule(operation, timeout)
    moved = OperationRescheduled(operation=operation, operation_id=1, timeout_ns=told_ns, at_ns=250_000_000)
    assert events[1:] == [moved]


@pytest.mark.parametrize("never", [None, inf])
def test_without_a_deadline_it_stays(purgatory, clock, events, never):
    operation = watched(purgatory, 1)
    assert purgatory.reschedule(operation, never)
    clock.advance(1_000_000)
    assert operation.outcome is None
    purgatory.complete_for_key("k")
    assert events[-2].deadline_ns is None


def test_a_time_of_zero_ends_it_with_the_next_pass(purgatory, clock):
    operation = watched(purgatory, 1)
    assert purgatory.reschedule(operation, 0)
    assert operation.outcome is None
    clock.advance(0)
    assert operation.outcome is Outcome.EXPIRED


def test_it_goes_behind_those_with_the_same_deadline(purgatory, clock, events):
    first, second = watched(purgatory, 1), watched(purgatory, 2)
    purgatory.reschedule(first, 2)
    clock.advance(2)
    assert [event.operation for event in events if isinstance(event, OperationEnded)] == [second, first]


def test_only_what_is_pending_there_is_rescheduled(purgatory, clock):
    new, ended = DelayedOperation(1), watched(purgatory, 1)
    ended.cancel()
    with_other = Purgatory(timer=purgatory.timer)
    other = watched(with_other, 1)
    assert not any(purgatory.reschedule(each, 5) for each in (new, ended, other))
    assert (new.timeout, ended.timeout, other.timeout) == (1, 1, 1)
    with_other.close()


def test_a_bad_timeout_changes_nothing(purgatory, clock):
    operation = watched(purgatory, 1)
    with pytest.raises(ValueError, match="timeout"):
        purgatory.reschedule(operation, nan)
    clock.advance(1)
    assert operation.outcome is Outcome.EXPIRED


def test_one_that_is_due_in_the_same_pass_is_spared(purgatory, clock):
    class First(DelayedOperation):
        def on_expiration(self):
            purgatory.reschedule(second, 1)

    purgatory.try_complete_else_watch(First(1), ["k"])
    second = watched(purgatory, 1)
    clock.advance(1)
    assert second.outcome is None
    clock.advance(1)
    assert second.outcome is Outcome.EXPIRED

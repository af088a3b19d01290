"""`try_complete_else_watch`: one check, then watching, and the order of everything that can be wrong."""

from dataclasses import dataclass

import pytest

from purgatory_async import (
    DelayedOperation,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.testing import assert_clean
from tests.core.recording import Recorded, Switch


def counts(purgatory):
    return purgatory.pending, purgatory.watched, purgatory.keys, purgatory.timer.pending


@pytest.fixture
def small(manual_clock):
    """A purgatory for one operation."""
    purgatory = Purgatory("small", timer=Timer(clock=manual_clock), max_pending=1)
    yield purgatory
    purgatory.close()
    assert_clean(purgatory)


# What it does.


def test_one_whose_condition_holds_completes_unwatched(purgatory):
    log: list[str] = []
    operation = Recorded(log, timeout=5, holds=lambda: True)
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is True
    assert operation.outcome is Outcome.COMPLETED
    assert counts(purgatory) == (0, 0, 0, 0)
    assert log == ["op checked", "op completed"]


def test_one_whose_condition_fails_watches_every_distinct_key(purgatory):
    operation = DelayedOperation(5)
    assert purgatory.try_complete_else_watch(operation, ["a", "b", "a"]) is False
    assert operation.outcome is None
    assert counts(purgatory) == (1, 2, 2, 1)
    assert operation.keys == ("a", "b")
    operation.cancel()
    assert counts(purgatory) == (0, 0, 0, 0)


@pytest.mark.parametrize("width", [pytest.param(1, id="one key"), pytest.param(50, id="50 keys")])
def test_the_condition_is_checked_once_however_many_keys(width, purgatory):
    log: list[str] = []
    operation = Recorded(log)
    purgatory.try_complete_else_watch(operation, range(width))
    assert log == ["op checked"]
    operation.cancel()


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(lambda operation: operation.cancel(), Outcome.CANCELLED, id="cancelled"),
        pytest.param(lambda operation: operation.fail(KeyError("k")), Outcome.FAILED, id="failed"),
    ],
)
def test_one_that_ends_otherwise_in_its_check_is_not_watched(end, outcome, purgatory):
    class Ending(DelayedOperation[None]):
        def try_complete(self) -> bool:
            return end(self)

    operation = Ending(5)
    assert purgatory.try_complete_else_watch(operation, ["k"]) is False
    assert operation.outcome is outcome
    assert counts(purgatory) == (0, 0, 0, 0)


def test_what_try_complete_returns_does_not_decide(purgatory):
    class Boasting(DelayedOperation[None]):
        def try_complete(self) -> bool:
            return True

    class Modest(DelayedOperation[None]):
        def try_complete(self) -> bool:
            self.force_complete()
            return False

    boasting = Boasting()
    with pytest.warns(RuntimeWarning, match="force_complete"):
        assert purgatory.try_complete_else_watch(boasting, ["k"]) is False
    assert purgatory.pending == 1
    assert purgatory.try_complete_else_watch(Modest(), ["k"]) is True
    boasting.cancel()


def test_an_exception_in_its_check_propagates_unregistered(purgatory):
    def fails() -> bool:
        raise KeyError("the condition")

    operation = Recorded([], timeout=5, holds=fails)
    with pytest.raises(KeyError, match="the condition"):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.outcome is None
    assert counts(purgatory) == (0, 0, 0, 0)
    operation.holds = None
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.cancel()


# What can be wrong.


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        pytest.param([], ValueError, "at least one", id="none"),
        pytest.param(iter(()), ValueError, "at least one", id="an empty iterator"),
        pytest.param("order:42", TypeError, r"\['order:42'\]", id="a bare str"),
        pytest.param(b"order", TypeError, r"\[b'order'\]", id="bare bytes"),
        pytest.param("", TypeError, "iterable of", id="an empty str"),
        pytest.param(42, TypeError, "iterable", id="not iterable"),
        pytest.param(["a", []], TypeError, "unhashable", id="a key that cannot be hashed"),
    ],
)
def test_bad_keys_are_refused_before_anything_is_done(keys, error, words, purgatory):
    log: list[str] = []
    operation = Recorded(log, timeout=5)
    with pytest.raises(error, match=words):
        purgatory.try_complete_else_watch(operation, keys)
    assert (log, counts(purgatory)) == ([], (0, 0, 0, 0))
    purgatory.try_complete_else_watch(operation, ["k"])
    operation.cancel()


@pytest.mark.parametrize("thing", [pytest.param(None, id="None"), pytest.param("op", id="a str")])
def test_what_is_no_operation_is_refused(thing, purgatory):
    with pytest.raises(TypeError, match="DelayedOperation"):
        purgatory.try_complete_else_watch(thing, ["k"])
    assert counts(purgatory) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "hashable", [pytest.param(True, id="hashable"), pytest.param(False, id="unhashable")]
)
def test_one_with_its_own_equality_is_refused_with_the_reason(hashable, purgatory):
    @dataclass(unsafe_hash=hashable)
    class Valued(DelayedOperation[None]):
        number: int

        def __post_init__(self) -> None:
            super().__init__(5)

    first = DelayedOperation()
    purgatory.try_complete_else_watch(first, ["k"])
    with pytest.raises(TypeError, match=r"Valued.*eq=False"):
        purgatory.try_complete_else_watch(Valued(1), ["a", "k"])
    assert counts(purgatory) == (1, 1, 1, 0)
    first.cancel()


def test_a_pending_operation_is_refused_and_goes_on_as_it_was(purgatory, manual_clock):
    operation = DelayedOperation(5)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(3)
    with pytest.raises(PurgatoryError, match="pending"):
        purgatory.try_complete_else_watch(operation, ["b"])
    with pytest.raises(PurgatoryError, match="pending"):
        Purgatory("other", timer=purgatory.timer).try_complete_else_watch(operation, ["b"])
    assert operation.keys == ("a",)
    manual_clock.advance(2)
    assert operation.outcome is Outcome.EXPIRED


@pytest.mark.parametrize(
    ("end", "state"),
    [
        pytest.param(lambda operation: operation.force_complete(), "completed", id="completed"),
        pytest.param(lambda operation: operation.cancel(), "cancelled", id="cancelled"),
        pytest.param(lambda operation: operation.fail(KeyError("k")), "failed", id="failed"),
    ],
)
def test_an_ended_operation_is_refused_without_a_check(end, state, purgatory):
    log: list[str] = []
    operation = Recorded(log)
    end(operation)
    log.clear()
    with pytest.raises(PurgatoryError, match=state):
        purgatory.try_complete_else_watch(operation, ["k"])
    assert (log, counts(purgatory)) == ([], (0, 0, 0, 0))


def test_watching_twice_names_the_state_whatever_the_repr_says(purgatory, manual_clock):
    class Plain(DelayedOperation[None]):
        def __repr__(self) -> str:
            return "<Plain>"

        def try_complete(self) -> bool:
            with pytest.raises(PurgatoryError, match=r"^<Plain> is being checked: cannot watch it again"):
                other.try_complete_else_watch(self, ["k"])
            return False

    other = Purgatory("other", timer=purgatory.timer)
    operation = Plain(5)
    purgatory.try_complete_else_watch(operation, ["k"])
    with pytest.raises(PurgatoryError, match=r"^<Plain> is pending: cannot watch it again; make a new one$"):
        purgatory.try_complete_else_watch(operation, ["k"])
    manual_clock.advance(5)
    with pytest.raises(PurgatoryError, match=r"^<Plain> is expired: cannot watch it again; make a new one$"):
        other.try_complete_else_watch(operation, ["k"])


def test_a_full_purgatory_names_its_limit_and_registers_nothing(small):
    first, second = DelayedOperation(5), DelayedOperation(5)
    small.try_complete_else_watch(first, ["k"])
    with pytest.raises(PurgatoryFull, match="max_pending is 1"):
        small.try_complete_else_watch(second, ["k", "l"])
    assert second.outcome is None
    assert counts(small) == (1, 1, 1, 1)
    first.cancel()
    assert small.try_complete_else_watch(second, ["k"]) is False


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        pytest.param(0, ValueError, id="zero"),
        pytest.param(-1, ValueError, id="negative"),
        pytest.param(True, TypeError, id="bool"),
        pytest.param(1.5, TypeError, id="float"),
    ],
)
def test_a_limit_that_is_none_is_refused(limit, error):
    with pytest.raises(error, match="max_pending"):
        Purgatory(max_pending=limit)


def test_a_full_timer_leaves_the_operation_unwatched(manual_clock):
    timer = Timer(clock=manual_clock, max_pending=1)
    timer.call_later(1, print)
    purgatory = Purgatory(timer=timer)
    operation = DelayedOperation(5)
    with pytest.raises(PurgatoryFull):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (operation.outcome, operation.keys) == (None, ())
    timer.close()
    with pytest.raises(PurgatoryClosed):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (purgatory.pending, purgatory.watched, purgatory.keys) == (0, 0, 0)


# The order: arguments and state, closed, the check, the limit, the keys, the deadline.


def test_arguments_and_state_come_before_closed(purgatory):
    ended = DelayedOperation()
    ended.cancel()
    purgatory.close()
    with pytest.raises(ValueError, match="at least one"):
        purgatory.try_complete_else_watch(DelayedOperation(), [])
    with pytest.raises(TypeError, match="iterable of"):
        purgatory.try_complete_else_watch(DelayedOperation(), "k")
    with pytest.raises(PurgatoryError, match="cancelled") as refusal:
        purgatory.try_complete_else_watch(ended, ["k"])
    assert type(refusal.value) is PurgatoryError


def test_closed_comes_before_the_check(purgatory):
    log: list[str] = []
    purgatory.close()
    with pytest.raises(PurgatoryClosed, match="purgatory of the test"):
        purgatory.try_complete_else_watch(Recorded(log, holds=lambda: True), ["k"])
    assert log == []


def test_closed_comes_before_full(small):
    small.try_complete_else_watch(DelayedOperation(), ["k"])
    small.close()
    with pytest.raises(PurgatoryClosed):
        small.try_complete_else_watch(DelayedOperation(), ["k"])


def test_the_check_comes_before_the_limit(small):
    log: list[str] = []
    small.try_complete_else_watch(DelayedOperation(), ["k"])
    assert small.try_complete_else_watch(Recorded(log, holds=lambda: True), ["k"]) is True
    with pytest.raises(PurgatoryFull):
        small.try_complete_else_watch(Recorded(log, "late"), ["k"])
    assert log[-1] == "late checked"


def test_the_check_comes_before_the_deadline_starts(purgatory, manual_clock):
    class Slow(DelayedOperation[None]):
        def try_complete(self) -> bool:
            manual_clock.advance(3)
            return False

    operation = Slow(5)
    purgatory.try_complete_else_watch(operation, ["k"])
    manual_clock.advance(4.999)
    assert operation.outcome is None
    manual_clock.advance(0.001)
    assert operation.outcome is Outcome.EXPIRED


# Inside a check.


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(lambda p: p.try_complete_else_watch(DelayedOperation(), ["k"]), id="watching"),
        pytest.param(lambda p: p.check_and_complete("k"), id="check_and_complete"),
        pytest.param(lambda p: p.complete_for_key("k"), id="complete_for_key"),
        pytest.param(lambda p: p.fail_for_key("k", KeyError()), id="fail_for_key"),
        pytest.param(lambda p: p.cancel_for_key("k"), id="cancel_for_key"),
        pytest.param(lambda p: p.wait("k").send(None), id="wait"),
    ],
)
@pytest.mark.parametrize(
    "first", [pytest.param(True, id="first check"), pytest.param(False, id="later check")]
)
def test_a_check_may_not_watch_or_use_verbs_of_its_purgatory(verb, first, purgatory):
    refusals = []
    switch = Switch()
    switch.on = first

    def ask() -> bool:
        if switch():
            with pytest.raises(PurgatoryError, match="try_complete") as refusal:
                verb(purgatory)
            refusals.append(refusal)
        return False

    operation = Recorded([], holds=ask)
    purgatory.try_complete_else_watch(operation, ["k"])
    switch.on = True
    if not first:
        purgatory.check_and_complete("k")
    assert len(refusals) == 1
    assert operation.outcome is None
    assert purgatory.cancel_for_key("k") == [operation]


def test_a_check_may_read_its_purgatory_and_use_others(purgatory):
    other = Purgatory("other", timer=purgatory.timer)
    elsewhere = DelayedOperation()
    seen = []

    def ask() -> bool:
        seen.append((purgatory.pending, purgatory.watched, purgatory.keys, purgatory.closed, purgatory.name))
        seen.append(list(purgatory.operations("k")))
        seen.append(other.try_complete_else_watch(elsewhere, ["k"]))
        seen.append(other.complete_for_key("k", "there"))
        return False

    operation = Recorded([], holds=ask)
    purgatory.try_complete_else_watch(operation, ["k"])
    assert seen == [(0, 0, 0, False, "purgatory of the test"), [], False, 1]
    assert elsewhere.result == "there"
    operation.cancel()


def test_after_a_check_that_raised_the_verbs_work_again(purgatory):
    def fails() -> bool:
        raise KeyError

    with pytest.raises(KeyError):
        purgatory.try_complete_else_watch(Recorded([], holds=fails), ["k"])
    assert purgatory.check_and_complete("k") == 0


def test_closed_inside_a_first_check_it_keeps_nothing_pending(purgatory):
    class Closing(DelayedOperation[None]):
        def try_complete(self) -> bool:
            purgatory.close()
            return False

    with pytest.raises(PurgatoryError):
        purgatory.try_complete_else_watch(Closing(), ["k"])
    assert counts(purgatory) == (0, 0, 0, 0)

"""A `try_complete` that returns a true value without having ended its operation is warned of, once a class."""

import gc
import warnings
import weakref

import pytest

from purgatory_async import DelayedOperation, Outcome
from tests.core.recording import Recorded, Switch


def boasting(holds=lambda: True, base=DelayedOperation):
    """A new class whose check returns what ``holds`` does, and ends nothing."""

    class Boasting(base):
        def try_complete(self):
            return holds()

    return Boasting


def warned_by(call, *arguments):
    """The messages of the warnings that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    assert {each.category for each in caught} <= {RuntimeWarning}
    return [str(each.message) for each in caught]


def test_a_later_check_warns_and_the_operation_stays_pending(purgatory):
    switch = Switch()
    operation = boasting(switch)()
    assert warned_by(purgatory.try_complete_else_watch, operation, ["k"]) == []
    switch.on = True
    (message,) = warned_by(purgatory.check_and_complete, "k")
    assert f"{__name__}.boasting.<locals>.Boasting.try_complete" in message
    assert "call self.force_complete()" in message
    assert operation.outcome is None
    operation.cancel()


@pytest.mark.parametrize("value", [True, 1, "yes", [0]], ids=repr)
def test_a_first_check_warns_and_the_operation_is_watched(value, purgatory):
    operation = boasting(lambda: value)()
    assert len(warned_by(purgatory.try_complete_else_watch, operation, ["k"])) == 1
    assert list(purgatory.operations("k")) == [operation]
    operation.cancel()


@pytest.mark.parametrize("value", [False, None, 0, ""], ids=repr)
def test_a_false_value_is_no_reason_to_warn(value, purgatory):
    operation = boasting(lambda: value)()
    assert warned_by(purgatory.try_complete_else_watch, operation, ["k"]) == []
    assert warned_by(purgatory.check_and_complete, "k") == []
    operation.cancel()


@pytest.mark.parametrize("first", [True, False], ids=["in its first check", "in a later check"])
@pytest.mark.parametrize("end", ["force_complete", "cancel"])
def test_an_operation_that_ended_is_no_reason_to_warn(first, end, purgatory):
    switch = Switch()
    switch.on = first
    operation = boasting(lambda: switch() and getattr(operation, end)())()
    assert warned_by(purgatory.try_complete_else_watch, operation, ["k"]) == []
    switch.on = True
    assert warned_by(purgatory.check_and_complete, "k") == []
    assert operation.outcome is not None


def test_it_warns_once_a_class(purgatory):
    one = boasting()
    other, sub = boasting(), boasting(base=one)
    watch = purgatory.try_complete_else_watch
    assert [len(warned_by(watch, kind(), ["k"])) for kind in (one, one, other, sub)] == [1, 0, 1, 1]
    assert warned_by(purgatory.check_and_complete, "k") == []
    purgatory.close()


def test_a_warned_class_is_not_kept_alive(purgatory):
    kind = boasting()
    operation = kind()
    assert len(warned_by(purgatory.try_complete_else_watch, operation, ["k"])) == 1
    operation.cancel()
    alive = weakref.ref(kind)
    del kind, operation
    gc.collect()
    assert alive() is None


def test_as_an_error_it_fails_the_operation_and_the_walk_goes_on(purgatory):
    switch = Switch()
    kind = boasting(switch)
    first, second, last = kind(), kind(), Recorded([], holds=switch)
    for operation in (first, second, last):
        purgatory.try_complete_else_watch(operation, ["k"])
    switch.on = True
    assert purgatory.check_and_complete("k") == 1
    assert [type(operation.exception) for operation in (first, second)] == [RuntimeWarning] * 2
    assert last.outcome is Outcome.COMPLETED


def test_as_an_error_it_comes_out_of_a_first_check(purgatory):
    kind = boasting()
    for _ in range(2):
        operation = kind()
        with pytest.raises(RuntimeWarning, match="force_complete"):
            purgatory.try_complete_else_watch(operation, ["k"])
        assert operation.outcome is None
    assert purgatory.pending == 0


def test_a_value_without_a_truth_is_a_check_that_raises(purgatory):
    class Array:
        def __bool__(self) -> bool:
            raise ValueError("ambiguous")

    switch = Switch()
    operation = boasting(lambda: switch() and Array())()
    last = Recorded([], holds=switch)
    purgatory.try_complete_else_watch(operation, ["k"])
    purgatory.try_complete_else_watch(last, ["k"])
    switch.on = True
    assert purgatory.check_and_complete("k") == 1
    assert isinstance(operation.exception, ValueError)

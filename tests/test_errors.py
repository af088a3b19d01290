"""The library's own errors: what they carry, and that they survive pickle and copy."""

import copy
import pickle
from collections.abc import Callable

import pytest

from purgatory_async import (
    DelayedOperation,
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
    errors,
)
from purgatory_async.testing import ManualClock, VirtualTimeLoop

KINDS = (OperationCancelled, OperationExpired, PurgatoryClosed, PurgatoryFull)
FULL_OF_DATA = (
    OperationExpired("late", keys=("a", "b"), timeout=2.5),
    OperationCancelled("gone", keys=("a",)),
    PurgatoryClosed("shut", keys=("a", ("b", 2))),
    PurgatoryFull("full", limit=7),
)


def raised_by_a_wait(end: Callable[[Purgatory], object], timeout: float | None = None) -> PurgatoryError:
    async def main() -> PurgatoryError:
        async with Purgatory() as purgatory:
            purgatory.timer.call_later(1, end, purgatory)
            with pytest.raises(PurgatoryError) as raised:
                await purgatory.wait("a", "b", timeout=timeout)
            return raised.value

    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_an_expired_wait_names_its_keys_and_timeout() -> None:
    error = raised_by_a_wait(lambda _: None, timeout=0.5)
    assert isinstance(error, OperationExpired)
    assert (error.keys, error.timeout) == (("a", "b"), 0.5)


def test_a_cancelled_wait_names_its_keys() -> None:
    error = raised_by_a_wait(lambda purgatory: purgatory.cancel_for_key("a"))
    assert isinstance(error, OperationCancelled)
    assert error.keys == ("a", "b")


def test_a_wait_ended_by_closing_names_its_keys() -> None:
    error = raised_by_a_wait(Purgatory.close)
    assert isinstance(error, PurgatoryClosed)
    assert error.keys == ("a", "b")


def test_a_closed_purgatory_names_the_refused_keys() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    purgatory.close()
    with pytest.raises(PurgatoryClosed) as watched:
        purgatory.try_complete_else_watch(DelayedOperation(), ["a", "a", "b"])
    with pytest.raises(PurgatoryClosed) as waited:
        purgatory.wait("a", "b").send(None)
    assert watched.value.keys == waited.value.keys == ("a", "b")


def test_a_closed_timer_has_no_keys() -> None:
    timer = Timer(clock=ManualClock())
    timer.close()
    with pytest.raises(PurgatoryClosed) as raised:
        timer.call_later(1, print)
    assert raised.value.keys == ()


def test_full_purgatory_and_timer_name_their_limit() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock(), max_pending=2), max_pending=1)
    purgatory.try_complete_else_watch(DelayedOperation(1), ["a"])
    purgatory.timer.call_later(1, print)
    with pytest.raises(PurgatoryFull) as watched:
        purgatory.try_complete_else_watch(DelayedOperation(), ["a"])
    with pytest.raises(PurgatoryFull) as called:
        purgatory.timer.call_later(1, print)
    assert (watched.value.limit, called.value.limit) == (1, 2)
    purgatory.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bare_message_is_enough(kind: type[PurgatoryError]) -> None:
    error = kind("no more than this")
    assert str(error) == "no more than this"
    assert vars(error) in ({"keys": ()}, {"keys": (), "timeout": None}, {"limit": None})


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("error", FULL_OF_DATA, ids=lambda error: type(error).__name__)
def test_errors_survive_pickle_and_copy(
    error: PurgatoryError, again: Callable[[PurgatoryError], PurgatoryError]
) -> None:
    other = again(error)
    assert other is not error
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
    assert vars(other)


def test_every_error_is_in_the_tree_that_errors_draws() -> None:
    assert all(issubclass(kind, PurgatoryError) for kind in KINDS)
    assert isinstance(OperationExpired(), TimeoutError)
    drawn = errors.__doc__ or ""
    assert all(f"+-- {kind.__name__}" in drawn for kind in (PurgatoryError, *KINDS))

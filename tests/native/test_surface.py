"""What is refused because it would corrupt a list, and what a subclass may override."""

import copy
import pickle
from collections.abc import Callable

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    "make",
    [
        DelayedOperation,
        lambda: Purgatory(timer=Timer(clock=ManualClock())),
        Timer,
        lambda: Timer(clock=ManualClock()).call_later(1, int),
        lambda: TimerEntry(3),
        TimingWheel,
        HashedWheel,
    ],
    ids=["operation", "purgatory", "timer", "handle", "entry", "timing wheel", "hashed wheel"],
)
def test_what_is_linked_cannot_be_copied_or_pickled(
    make: Callable[[], object], copier: Callable[[object], object]
) -> None:
    it = make()
    with pytest.raises(TypeError, match=rf"^cannot copy or pickle a {type(it).__name__}; make a new one$"):
        copier(it)


def test_the_coroutine_of_a_wait_is_no_operation() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    wait = purgatory.wait("k")
    with pytest.raises(TypeError, match=r"^operation must be a DelayedOperation, got <coroutine object"):
        purgatory.try_complete_else_watch(wait, ["k"])  # type: ignore[arg-type]  # as a caller may
    wait.close()

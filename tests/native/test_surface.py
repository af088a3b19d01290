"""What is linked into wheels and lists cannot be copied."""

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

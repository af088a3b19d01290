"""The pytest plugin: a clock that stands still and a purgatory on it, checked when the test is over.

Installed with the package (entry point ``purgatory_async``); ask for the fixtures by name.
"""

from collections.abc import Iterator

import pytest

from purgatory_async._purgatory import Purgatory
from purgatory_async._timer import Timer
from purgatory_async.testing._clean import assert_clean
from purgatory_async.testing._clock import ManualClock


@pytest.fixture
def manual_clock() -> ManualClock:
    """A `ManualClock` at zero."""
    return ManualClock()


@pytest.fixture
def purgatory(manual_clock: ManualClock) -> Iterator[Purgatory]:
    """A `Purgatory` on `manual_clock`; an error at teardown says what is still pending and on which keys."""
    timer = Timer(clock=manual_clock)
    purgatory = Purgatory("purgatory of the test", timer=timer)
    yield purgatory
    try:
        assert_clean(purgatory)
    finally:
        purgatory.close()
        timer.close()

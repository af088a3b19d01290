"""What the tests of one pattern share."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from purgatory_async.patterns import Correlator, HandOff
from tests.loop.worlds import SteppedWorld


@pytest.fixture
def calls(purgatory):
    """Requests in the purgatory of the test."""
    return Correlator(purgatory)


@pytest.fixture
def jobs(purgatory):
    """Queues in the purgatory of the test."""
    return HandOff(purgatory)


@pytest.fixture
def world():
    """A clock that wakes through the loop."""
    return SteppedWorld()


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request):
    """Makes a loop of each kind."""
    loops = {"asyncio": asyncio.SelectorEventLoop}
    return loops.get(request.param) or pytest.importorskip(request.param).new_event_loop


@pytest.fixture(
    params=[(30, 20), pytest.param((200, 40), marks=pytest.mark.slow)],
    ids=["short stories", "longer stories"],
)
def tell(request, new_loop):
    """Has Hypothesis look for the shortest story that a machine and its reference tell differently."""
    examples, steps = request.param

    def tell(machine):
        on_loop = type(machine.__name__, (machine,), {"new_loop": staticmethod(new_loop)})
        settled = settings(max_examples=examples, stateful_step_count=steps)
        run_state_machine_as_test(on_loop, settings=settled)

    return tell

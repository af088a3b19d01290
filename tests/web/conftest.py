"""Fixtures of the tests of polls and streams."""

import asyncio
import signal

import pytest
import pytest_asyncio

from purgatory_async.patterns import Broadcast
from purgatory_async.testing import settle


@pytest_asyncio.fixture
async def nothing_stays_behind():
    """When a test is over no task is left, and the loop reported no fault."""
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    yield
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert faults == []


@pytest.fixture
def heard():
    """The signals that the application's own handlers heard; at the end those handlers are in place."""
    numbers = []

    def note(number, frame):
        numbers.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    yield numbers
    after = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert set(after.values()) == {note}


@pytest.fixture
def news(purgatory):
    """A broadcast that keeps four items."""
    return Broadcast(purgatory, max_items=4)

"""Fixtures of the poll tests."""

import asyncio

import pytest_asyncio

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

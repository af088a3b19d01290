"""The contract suite: each test runs on every carrier of the verbs, whose name is in the test's id."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.durable.library.carriers import CARRIERS
from tests.durable.library.on_store import Members

HERE = Path(__file__).parent
SLOW = frozenset(name for name, carrier in CARRIERS.items() if carrier.slow)


def pytest_asyncio_loop_factories(config, item):
    """Give a test of the contract the loop of each carrier, in place of the usual loops."""
    if item.get_closest_marker("asyncio").kwargs:
        return None
    return {name: _loop_of(name, carrier) for name, carrier in CARRIERS.items()}


def _loop_of(name, carrier):
    def new_loop():
        loop = carrier.new_loop()
        loop.carrier = name
        return loop

    return new_loop


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of carriers that need real time or a server as slow."""
    for item in items:
        if item.path.is_relative_to(HERE) and not SLOW.isdisjoint(
            item.name.rstrip("]").split("[")[-1].split("-")
        ):
            item.add_marker(pytest.mark.slow)


@pytest_asyncio.fixture
async def carrier(tmp_path):
    """Open verbs on one new state."""
    async with AsyncExitStack() as stack:
        yield CARRIERS[asyncio.get_running_loop().carrier](tmp_path, stack)


@pytest_asyncio.fixture
async def verbs(carrier):
    """Verbs on a new state."""
    return await carrier.open()


@pytest_asyncio.fixture
async def members():
    """Processes on one store in virtual time."""
    async with Members() as made:
        yield made

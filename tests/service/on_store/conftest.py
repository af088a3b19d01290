"""Workers of the service on a store that they share."""

from contextlib import ExitStack

import pytest
import pytest_asyncio

from tests.processes import Served
from tests.service.on_store.members import Members


@pytest_asyncio.fixture
async def members(monkeypatch):
    """Workers in virtual time on a store in memory."""
    async with Members(monkeypatch) as made:
        yield made


@pytest.fixture
def worker():
    """Start workers as processes, which are killed at the end."""
    with ExitStack() as stack:

        def start(store, *flags):
            return stack.enter_context(Served("--store", store, "--jitter", "0", *flags))

        yield start


@pytest.fixture
def file_store(tmp_path):
    """The URL of an empty SQLite file."""
    return f"sqlite:///{tmp_path}/log.db"

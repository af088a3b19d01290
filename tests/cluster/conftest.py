"""An engine for each test, and logs that are closed after it."""

from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.cluster.engines import ENGINES
from tests.cluster.servers import by_engine


@pytest.fixture(params=by_engine(ENGINES))
def engine_name(request):
    return request.param


@pytest_asyncio.fixture
async def engine(engine_name, tmp_path):
    async with ENGINES[engine_name](tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def connect(engine):
    """Open another log on the engine's store."""
    async with AsyncExitStack() as stack:

        async def connect():
            log = engine.log()
            await log.open()
            stack.push_async_callback(log.aclose)
            return log

        yield connect

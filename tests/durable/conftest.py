"""Workers on one store in virtual time, stopped after the test."""

import pytest_asyncio

from tests.durable.log_workers import Workers


@pytest_asyncio.fixture
async def workers():
    async with Workers() as made:
        yield made

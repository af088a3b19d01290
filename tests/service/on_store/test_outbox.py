"""A worker on Postgres that is killed while it moves committed rows into the log."""

import asyncio

import msgspec
import pytest

from tests.cluster.reading import read
from tests.cluster.server_engines import PostgresEngine
from tests.cluster.servers import Postgres, need_postgres, shared
from tests.processes import until

pytestmark = pytest.mark.slow

ROWS = 1500  # more than are moved at once
ROUNDS = 3
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%purgatory_append(%'"


async def killed_while_it_moves(engine, one, number):
    """Commit rows, and kill a worker as soon as it is inside the transaction that moves them."""
    import asyncpg  # noqa: PLC0415 - needs an extra

    connection = await asyncpg.connect(engine.server.url)
    async with connection.transaction():
        await connection.execute(f"SELECT FROM {engine.name}_head FOR UPDATE")
        rows = f"generate_series(1, {ROWS}) row"
        await engine.sql(f"SELECT count(purgatory_signal('{number}-' || row)) FROM {rows}")
        while not await engine.sql(BLOCKED):  # noqa: ASYNC110 - the server says nothing
            await asyncio.sleep(0.02)
        one.kill()
    await connection.close()


async def signalled(engine):
    """The keys of all signals in the log, in order."""
    log = engine.log()
    await log.open()
    entries = [msgspec.json.decode(entry.data) for entry in await read(log, await log.end())]
    await log.aclose()
    return [entry["key"] for entry in entries if entry["k"] == "signal"]


def test_rows_that_a_killed_worker_moves_arrive_once(worker):
    need_postgres()
    engine = PostgresEngine(shared(Postgres))
    url = f"{engine.server.url}?name={engine.name}"
    for number in range(ROUNDS):
        asyncio.run(killed_while_it_moves(engine, worker(url).ready(), number))
    last = worker(url).ready()
    until(lambda: last.counts()["signals"] >= ROUNDS * ROWS, "the rows")
    assert last.counts()["signals"] == ROUNDS * ROWS
    keys = [f"{number}-{row}" for number in range(ROUNDS) for row in range(1, ROWS + 1)]
    assert asyncio.run(signalled(engine)) == keys

"""What a log in Postgres keeps beyond the contract: its outbox, its settings, its polls."""

import asyncio
import json
import random

import pytest

from purgatory_async.cluster import LogRefused, LogUnavailable
from tests.cluster.reading import read
from tests.cluster.server_engines import PostgresEngine
from tests.cluster.servers import Postgres, need_postgres, shared
from tests.cluster.test_server_faults import opened

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest.fixture
def engine_name():
    return "postgres"


@pytest.fixture
def transact(engine):
    """Begin a transaction that may signal; returns its connection."""
    import asyncpg  # noqa: PLC0415 - needs an extra

    async def begin():
        connection = await asyncpg.connect(engine.server.url)
        transaction = connection.transaction()
        await transaction.start()
        return connection, transaction

    return begin


async def signal(engine, connection, key):
    await connection.execute(f"SELECT {engine.name}_signal($1, '{{\"paid\": true}}')", key)


async def test_a_committed_signal_arrives_while_nothing_is_appended(engine, connect):
    log = await connect()
    hearing = asyncio.create_task(read(log, 1))
    await asyncio.sleep(0)
    await engine.sql("SELECT purgatory_signal('order-42', '{\"paid\": null}', 3, 'ann')")
    (entry,) = await hearing
    assert json.loads(entry.data) == {
        "k": "signal",
        "key": "order-42",
        "value": {"paid": None},
        "amount": 3,
        "voter": "ann",
    }
    await engine.sql("SELECT purgatory_put('mail', '[1]')")
    assert json.loads((await read(log, 2))[1].data) == {"k": "put", "queue": "mail", "item": [1], "delay": 0}


async def test_only_those_who_may_read_the_log_are_told(engine, connect, transact):
    log = await connect()
    connection, transaction = await transact()
    await transaction.commit()
    heard = []
    await connection.add_listener(engine.name, lambda *said: heard.append(said[-1]))
    await log.append([b"first"])
    await log.append([b"secret"])
    await log.append([bytes(8_000)])  # too large to be told
    async with asyncio.timeout(60):
        while heard[-1:] != ["3"]:
            await connection.fetchval("SELECT 1")
    await connection.close()
    assert not any("secret" in said or "c2VjcmV0" in said for said in heard)
    assert await engine.sql("SELECT length(channel) FROM purgatory_head") == 32


async def test_of_two_that_change_the_epoch_at_once_one_wins(engine, connect, transact):
    # The fault: the one that had to wait was told the old epoch, and followed a log of another one for a while.
    log = await connect()
    before = await engine.sql("SELECT epoch FROM purgatory_head")
    connection, transaction = await transact()
    await connection.execute(f"UPDATE {engine.name}_head SET epoch = 'first'")
    second = asyncio.create_task(log._engine.change_epoch(before))
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'purgatory_head'"
    )
    async with asyncio.timeout(60):
        while not await engine.sql(waits):
            pass
    await transaction.commit()
    await connection.close()
    assert await second == await engine.sql("SELECT epoch FROM purgatory_head") == "first"


async def test_only_commits_arrive_and_keep_their_causes(engine, connect, transact):
    log = await connect()
    draw, committed = random.Random(1), []
    left_open, hanging = await transact()
    await signal(engine, left_open, "open")

    async def user(name):
        for number in range(20):
            connection, transaction = await transact()
            for part in "ab":
                await signal(engine, connection, f"{name} {number} {part}")
            if draw.random() < 0.2:
                await transaction.rollback()
            else:
                await transaction.commit()
                committed.append(f"{name} {number}")
            await connection.close()

    async with asyncio.timeout(60):  # the open transaction delays no append
        await asyncio.gather(*(user(name) for name in "xyz"), *(log.append([b"other"]) for _ in range(20)))
        entries = await read(log, 2 * len(committed) + 20)
    await hanging.rollback()
    await left_open.close()
    await log.append([b"end"])
    assert await log.end() == len(entries) + 1
    keys = [json.loads(entry.data)["key"] for entry in entries if entry.data != b"other"]
    assert sorted(keys) == sorted(f"{name} {part}" for name in committed for part in "ab")
    for name in "xyz":  # each transaction of a user began after the one before had ended
        of_user = [key for key in keys if key.startswith(f"{name} ")]
        assert of_user == [
            f"{key} {part}" for key in committed if key.startswith(f"{name} ") for part in "ab"
        ]


async def test_a_commit_comes_before_what_follows_it(engine, connect):
    log = await connect()
    await engine.sql("SELECT purgatory_signal('before')")
    await log.append([b"after"])
    assert [entry.data == b"after" for entry in await read(log, 2)] == [False, True]


async def test_an_outbox_larger_than_a_batch_keeps_its_order(engine, connect):
    log = await connect()
    await engine.sql("SELECT count(purgatory_signal(number::text)) FROM generate_series(1, 2500) number")
    keys = [json.loads(entry.data)["key"] for entry in await read(log, 2500)]
    assert keys == [str(number) for number in range(1, 2501)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("signal('')", "key must have 1 to 512 bytes in UTF-8, got 0"),
        ("signal(NULL)", "key must have 1 to 512 bytes in UTF-8, got NULL"),
        ("signal(repeat('ä', 257))", "key must have 1 to 512 bytes in UTF-8, got 514"),
        ("signal('..')", "must have no control characters and be neither"),
        ("signal(E'a\\nb')", "must have no control characters and be neither"),
        ("signal('a', amount => 0)", "amount must be from 1 to 9007199254740991, got 0"),
        ("signal('a', to_jsonb(repeat('x', 1048577)))", "value must be at most 1048576 bytes"),
        ("signal('a', voter => '')", "voter must have 1 to 512 bytes"),
        ("put('mail', NULL)", "item must be JSON of at most 1048576 bytes, got NULL"),
        ("append(ARRAY[NULL]::bytea[])", "a batch must have at most 1000 entries, none NULL, got 1"),
    ],
)
async def test_bad_input_is_refused_in_the_function(engine, connect, call, message):
    import asyncpg  # noqa: PLC0415 - needs an extra

    log = await connect()
    with pytest.raises(asyncpg.InvalidParameterValueError, match=message) as caught:
        await engine.sql(f"SELECT purgatory_{call}")
    assert caught.value.sqlstate == "22023"
    assert (await log.append([b"first"])).first == 1


async def test_a_read_only_database_is_unavailable(engine, connect):
    log = await connect()
    await engine.sql("ALTER ROLE CURRENT_USER SET default_transaction_read_only = on")
    try:
        await engine.cut()
        for _ in range(2):  # the first may meet a connection that was cut
            with pytest.raises(LogUnavailable):
                await log.append([b"a"])
        with pytest.raises(LogUnavailable, match="must take writes, got a read-only session"):
            await engine.log().open()
    finally:
        await engine.sql("ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
    assert (await log.append([b"c"])).first == 1


async def test_a_pooler_without_notifications_is_made_up_by_polls(engine, monkeypatch, caplog):
    import asyncpg  # noqa: PLC0415 - needs an extra

    async def deaf(connection, channel, callback):
        pass

    monkeypatch.setattr(asyncpg.Connection, "add_listener", deaf)
    monkeypatch.setattr("purgatory_async.cluster.postgres.HEARING_S", 0.01)
    async with opened(engine.log()) as log, opened(engine.log()) as other:
        hearing = asyncio.create_task(read(log, 1))
        while "notifications of Postgres do not arrive" not in caplog.text:  # noqa: ASYNC110 - it is logged, no more
            await asyncio.sleep(0)  # one turn of the loop
        await other.append([b"a"])
        assert [entry.data for entry in await hearing] == [b"a"]


@pytest.mark.slow
async def test_postgres_without_fsync_is_refused():
    need_postgres()
    server = Postgres(fsync="off")
    try:
        server.start()
        with pytest.raises(LogRefused, match="fsync must be on, got off"):
            await PostgresEngine(server).log().open()
        async with opened(PostgresEngine(server, sync="os").log()) as log:
            assert (await log.append([b"a"])).first == 1
    finally:
        server.close()


async def test_a_wrong_role_or_database_is_refused():
    need_postgres()
    server = shared(Postgres)
    for url in (server.url.replace("purgatory@", "nobody@"), server.url.replace("/postgres", "/missing")):
        engine = PostgresEngine(server)
        with pytest.raises(LogRefused):
            await type(engine.log())(url, name=engine.name).open()


@pytest.mark.parametrize(
    "error", ["DiskFullError", "OutOfMemoryError", "AdminShutdownError", "SerializationError"]
)
async def test_what_the_server_cannot_do_now_is_unavailable(error):
    import asyncpg  # noqa: PLC0415 - needs an extra

    from purgatory_async.cluster.postgres_link import translated  # noqa: PLC0415 - needs an extra

    assert type(translated(getattr(asyncpg, error)("no"))) is LogUnavailable

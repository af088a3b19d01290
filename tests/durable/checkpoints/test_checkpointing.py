"""Saving a checkpoint: one process at a time, nothing visible of one that fails, nothing that the engine has lost."""

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest
from msgspec import Raw, json

from purgatory_async.cluster import LogDamaged, LogError, LogUnavailable
from purgatory_async.durable.checkpoints import checkpointing
from purgatory_async.durable.checkpoints.checkpointing import STORE_VARIABLE, Saved, checkpoint, save
from purgatory_async.durable.checkpoints.loading import folded
from purgatory_async.durable.fold.entries import SignalKey, SubmitOperation
from purgatory_async.durable.urls import exists, opened, parsed, sole
from tests.cluster.reading import read, saved
from tests.cluster.server_engines import PostgresEngine, RedisEngine
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import append, some_entries, state
from tests.processes import python
from tests.source_tree import ROOT

pytestmark = pytest.mark.asyncio


def server_of(store):
    """The server of a store, for what only tests do."""
    engine = (PostgresEngine if store.engine == "postgresql" else RedisEngine)(
        SimpleNamespace(url=store.target)
    )
    engine.name = store.name
    return engine


async def test_a_checkpoint_trims_to_what_is_to_be_kept(store, log):
    await append(log, *some_entries())
    first = await checkpoint(store, keep=5)
    assert (first.position, first.entries) == (30, 30)
    assert [entry.position for entry in await read(log, 31, after=25)] == list(range(26, 32))
    await append(log, SignalKey(key="k1"))
    second = await checkpoint(store, keep=5)
    assert (second.position, second.entries) == (32, 2)
    position, parts = await saved(log)
    assert (position, sum(map(len, parts))) == (32, second.size)


async def test_a_checkpoint_above_the_limit_is_not_saved(log):
    await append(log, *some_entries())
    size = (await save(log)).size
    await append(log, b'{"k":"tick"}')
    message = (
        f"a checkpoint must be at most {size - 100} bytes, got more at position 32; the log is not trimmed"
    )
    with pytest.raises(LogError, match=message):
        await save(log, keep=0, max_bytes=size - 100)
    assert (await log.load()).position == 30
    assert len(await read(log, 32)) == 32
    assert (await save(log, keep=0, max_bytes=size + 100)).position == 32


async def test_one_process_at_a_time_saves(store, log):
    await append(log, *some_entries())
    async with sole(store) as alone:
        assert alone
        assert await checkpoint(store) is None
        async with sole(store) as second:
            assert not second
    assert (await checkpoint(store)).position == 30


async def test_logs_on_one_server_do_not_wait_for_each_other(store, log):
    other = parsed("other".join(store.url.rsplit("log", 1)))
    async with sole(store) as alone, sole(other) as second:
        assert alone
        assert second


@pytest.mark.parametrize("url", by_engine(["postgres"]), indirect=True)
async def test_the_lock_ends_before_the_server_sees_a_close(store, log, monkeypatch):
    from asyncpg import Connection  # noqa: PLC0415 - needs an extra

    left, terminate = [], Connection.terminate

    def leave(connection):
        left.append(connection)

    monkeypatch.setattr(Connection, "terminate", leave)
    try:
        async with sole(store) as first:
            assert first
        async with sole(store) as second:
            assert second
    finally:
        for connection in left:
            terminate(connection)


async def test_an_engine_that_is_away_is_unavailable_not_free():
    for url in ("postgresql://127.0.0.1:1/db", "redis://127.0.0.1:1", "sqlite:////proc/log.db"):
        with pytest.raises(LogUnavailable):
            async with sole(parsed(url)):
                pass


async def test_looking_for_a_log_creates_none(store):
    assert not await exists(store)
    async with opened(store):
        pass
    assert await exists(store)


async def test_a_damaged_log_keeps_its_checkpoint(store, log):
    await append(log, *some_entries())
    await checkpoint(store)
    await append(log, b"damage")
    with pytest.raises(LogDamaged, match="entry 32 is damaged"):
        await checkpoint(store)
    assert (await saved(log))[0] == 30


@pytest.mark.parametrize("url", by_engine(["postgres", "redis"]), indirect=True)
async def test_a_state_that_the_engine_has_lost_is_not_saved(store, log, monkeypatch):
    engine = server_of(store)
    await append(log, *some_entries())
    original = checkpointing.pieces

    async def pieces(fold):
        await engine.lose(20)  # as a failover, while the parts are written
        async with opened(store) as (other, _):
            await append(other, *some_entries(8))
        async for piece in original(fold):
            yield piece

    monkeypatch.setattr(checkpointing, "pieces", pieces)
    with pytest.raises(LogUnavailable):
        await checkpoint(store)
    async with opened(store) as (after, _):
        assert await after.load() is None


def start(store, sync="always"):
    named = {**os.environ, STORE_VARIABLE: store.url, "PYTHONPATH": str(ROOT)}
    return python("-P", "-m", "purgatory_async.durable.checkpoints.checkpointing", sync, env=named)


async def ended(process):
    return await asyncio.to_thread(process.communicate)


@pytest.mark.slow
async def test_a_process_saves_and_says_what(store, log):
    await append(log, *some_entries())
    said, complaint = await ended(start(store))
    assert complaint == ""
    assert json.decode(said, type=Saved).position == 30
    async with sole(store):
        assert await ended(start(store)) == ("null\n", "")
    await append(log, b"damage")
    said, complaint = await ended(start(store))
    assert said == ""
    assert complaint.startswith("entry 32 is damaged: ")
    assert complaint.count("\n") == 1


async def release(store):
    """Release the lock of a killed process; only Redis keeps it, for at most 30 s."""
    if store.engine == "redis":
        lock = f"{{{store.name}}}:checkpoint-lock"
        assert await server_of(store).do("PTTL", lock) <= 30_000
        await server_of(store).do("DEL", lock)


@pytest.mark.slow
async def test_a_killed_process_leaves_nothing_visible(store, log):
    text = Raw(b'"' + b"x" * 1_000_000 + b'"')
    for number in range(24):
        await append(log, SubmitOperation(id=str(number), keys=("k",), data=text))
    before = await state(folded(log))
    deaths = 0
    for delay in (0.3, 0.4, 0.5, 0.6, 0.8):
        with start(store) as process:
            await asyncio.sleep(delay)
            process.kill()
        deaths += process.returncode == -signal.SIGKILL
        await release(store)
        checkpointed = await saved(log)
        assert checkpointed is None or checkpointed[0] >= 24
        assert (await state(folded(log)))[2] == before[2]
    assert deaths
    last = await checkpoint(store)
    assert last.position == (await saved(log))[0]
    assert (await state(folded(log)))[2] == 24

"""The size of SQLite's write-ahead log after a reader that took long."""

import sqlite3
from contextlib import closing

import pytest

from purgatory_async.cluster import SqliteLog, sqlite_file
from purgatory_async.cluster.sqlite_schema import wal_bytes

pytestmark = pytest.mark.asyncio

BATCH = [b"x" * 100_000] * 10


async def parts():
    yield b"state"


@pytest.mark.slow
async def test_the_write_ahead_log_shrinks_once_a_long_reader_left(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "WAL_BOUND", "journal_size_limit=4000000")
    monkeypatch.setattr(sqlite_file, "GROWN_BYTES", 1_000_000)
    path = tmp_path / "log.db"
    log = SqliteLog(path, sync="os")
    await log.open()
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM purgatory_head").fetchall()
        for _ in range(40):
            last = await log.append(BATCH)
        assert wal_bytes(path) > 30_000_000
    for _ in range(3):
        await log.append([b"y"])
    assert wal_bytes(path) <= 4_000_000
    await log.save(last.first, parts(), 0)
    assert wal_bytes(path) == 0
    await log.append(BATCH)
    await log.aclose()
    assert wal_bytes(path) == 0


async def test_the_write_ahead_log_has_a_bound(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    await log.open()
    settings = log._writer._connection.execute("PRAGMA journal_size_limit").fetchone()
    assert settings == (64 << 20,)
    await log.aclose()

"""A SQLite log while another program holds its lock."""

import subprocess
from contextlib import contextmanager

import pytest

from purgatory_async.cluster import LogUnavailable, SqliteLog
from tests.processes import python

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

SHELL = "import sqlite3; one = sqlite3.connect({path!r}); one.execute('BEGIN IMMEDIATE')"
READER = (
    "import sqlite3; one = sqlite3.connect({path!r}); one.execute('SELECT * FROM purgatory_log'); one.close()"
)
STOPPED = "import fcntl; file = open({path!r} + '.lock'); fcntl.flock(file, fcntl.LOCK_EX)"


@contextmanager
def holder(program, path):
    """Another program that holds a lock; yields its id."""
    code = f"{program.format(path=str(path))}; print(flush=True); input()"
    with python("-c", code, stdin=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.parametrize("program", [SHELL, STOPPED])
async def test_a_held_lock_is_named_with_its_holder(tmp_path, program):
    path = tmp_path / "log.db"
    log, late = SqliteLog(path), SqliteLog(path)
    await log.open()
    with holder(program, path) as pid:
        for call in (log.append([b"a"]), log.append([b"a"]), late.open()):
            with pytest.raises(LogUnavailable, match=rf"process {pid} \(.*\) holds its lock") as refused:
                await call
            assert refused.value.cause == "locked"
    assert (await log.append([b"b"])).first >= 1
    await log.aclose()


async def test_opening_a_log_again_keeps_the_locks_of_this_process(tmp_path):
    """Closing any descriptor of the file would release SQLite's; then the last one elsewhere deletes the WAL in use."""
    path = tmp_path / "log.db"
    log, second = SqliteLog(path), SqliteLog(path)
    head = await log.open()
    await log.append([b"a"])
    await second.open(epoch=head.epoch)
    await second.aclose()
    before = (tmp_path / "log.db-wal").stat().st_ino
    with python("-c", READER.format(path=str(path))) as program:
        assert program.communicate()[1] == ""
    assert (tmp_path / "log.db-wal").stat().st_ino == before
    await log.aclose()

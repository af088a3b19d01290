"""What a log in a SQLite file keeps beyond the contract: its clock, its neighbours, its file."""

import asyncio
import os
import shutil
import socket
import sqlite3
import stat
import time
from contextlib import asynccontextmanager, chdir, closing

import pytest

from purgatory_async.cluster import (
    LogDamaged,
    LogError,
    LogGap,
    LogRefused,
    LogUnavailable,
    SqliteLog,
    end_mark,
    sqlite_file,
    sqlite_insert,
)
from purgatory_async.cluster.nudges import Nudges
from purgatory_async.cluster.sqlite_file import SqliteWriter
from tests.cluster.reading import each, read, saved

pytestmark = pytest.mark.asyncio

HOUR_US = 3_600_000_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@asynccontextmanager
async def opened(path, **settings):
    log = SqliteLog(path, **settings)
    await log.open()
    try:
        yield log
    finally:
        await log.aclose()


class WallClock:
    """``time`` with a wall clock that can be stepped."""

    step_us = 0

    def __getattr__(self, name):
        return getattr(time, name)

    def time_ns(self):
        return time.time_ns() + self.step_us * 1000


@pytest.fixture
def wall(monkeypatch):
    clock = WallClock()
    monkeypatch.setattr(sqlite_insert, "time", clock)
    return clock


@pytest.fixture
def boot(tmp_path, monkeypatch):
    """Give each start of the machine its name."""
    file = tmp_path / "boot_id"
    monkeypatch.setattr(end_mark, "_BOOT_ID", file)
    file.write_text("first\n", encoding="ascii")
    return lambda name: file.write_text(f"{name}\n", encoding="ascii")


@pytest.mark.parametrize("step_us", [HOUR_US, -HOUR_US], ids=["forward", "back"])
async def test_a_step_of_the_wall_clock_does_not_show(path, wall, step_us):
    async with opened(path) as log:
        before = (await log.append([b"a"])).at_us
        wall.step_us = step_us
        after = (await log.append([b"b"])).at_us
        async with opened(path) as other:
            afterwards = (await other.append([b"c"])).at_us
    assert before <= after <= afterwards < before + HOUR_US // 2


async def test_a_new_boot_takes_the_wall_clock_again(path, wall, boot):
    async with opened(path) as log:
        before = (await log.append([b"a"])).at_us
    wall.step_us = 2 * HOUR_US
    boot("second")
    async with opened(path) as log:
        assert (await log.append([b"b"])).at_us >= before + 2 * HOUR_US
    wall.step_us = 0
    boot("third")
    async with opened(path) as log:
        last = (await read(log, 2))[-1].at_us
        assert (await log.append([b"c"])).at_us == last  # never back


async def test_a_lost_nudge_is_made_up_by_the_poll(path, monkeypatch):
    monkeypatch.setattr(Nudges, "send", lambda *_: None)
    async with opened(path) as log, opened(path) as other:
        hearing = asyncio.create_task(read(log, 1))
        await asyncio.sleep(0)
        await other.append([b"a"])
        assert [entry.data for entry in await hearing] == [b"a"]


@pytest.mark.parametrize("own", [True, False])
async def test_a_nudge_reaches_a_follower_that_does_not_poll(path, monkeypatch, own):
    monkeypatch.setattr("purgatory_async.cluster.sqlite.POLL_S", 3600)
    async with opened(path) as log, opened(path) as other:
        hearing = asyncio.create_task(read(log, 3))
        for _ in range(3):
            await log.end()  # the follower has found nothing, and waits
            await (log if own else other).append([b"a"])
        assert len(await hearing) == 3


def sockets(path):
    return [each.name for each in beside(path, ".d").iterdir()]


def beside(path, suffix):
    return path.with_name(f"{path.name}{suffix}")


async def test_the_socket_of_a_dead_process_is_removed(path):
    async with opened(path) as log:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead, chdir(beside(path, ".d")):
            dead.bind("dead")
        assert len(sockets(path)) == 2
        await log.append([b"a"])
        (own,) = sockets(path)
        assert own != "dead"
    assert sockets(path) == []


async def test_a_path_longer_than_a_sockets_works(tmp_path):
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    async with opened(folder / "log.db") as log, opened(folder / "log.db") as other:
        await other.append([b"a"])
        assert len(await read(log, 1)) == 1


async def test_its_files_are_only_for_their_owner(path):
    async with opened(path) as log:
        await log.append([b"a"])
        beside = [each for each in path.parent.iterdir() if each.name.startswith("log.db")]
        assert {
            each.name: oct(stat.S_IMODE(each.stat().st_mode) & 0o077) for each in beside
        } == dict.fromkeys(["log.db", "log.db-shm", "log.db-wal", "log.db.d", "log.db.lock"], "0o0")


@pytest.mark.parametrize("system", ["nfs4", "cifs", "smb3"])
async def test_a_network_file_system_is_refused(path, tmp_path, monkeypatch, system):
    device = path.parent.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 2 {os.major(device)}:{os.minor(device)} / /mnt rw - {system} server:/x rw\n")
    monkeypatch.setattr(sqlite_file, "_MOUNTS", mounts)
    with pytest.raises(LogRefused, match=f"must be on a local file system, got {system}"):
        await SqliteLog(path).open()
    assert not path.exists()


async def test_a_folder_that_is_missing_is_refused(tmp_path):
    with pytest.raises(LogRefused, match="must exist, got: No such file or directory"):
        await SqliteLog(tmp_path / "missing" / "log.db").open()


async def test_an_unknown_sync_is_refused(path):
    with pytest.raises(ValueError, match="sync must be one of 'always', 'os', got 'never'"):
        SqliteLog(path, sync="never")


async def test_a_file_that_cannot_be_opened_is_unavailable(path):
    path.mkdir()
    with pytest.raises(LogUnavailable, match=r"log\.db is not usable: Is a directory"):
        await SqliteLog(path).open()


@pytest.mark.parametrize(
    "content", [b"no database at all, just some text" * 100, b"SQLite format 3\0" + bytes(4080)]
)
async def test_a_file_that_is_no_log_is_damaged(path, content):
    path.write_bytes(content)
    with pytest.raises(LogDamaged, match=r"log\.db is damaged"):
        await SqliteLog(path).open()
    assert path.read_bytes() == content


async def test_a_log_of_an_earlier_commit_is_refused(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE purgatory_head(epoch, checkpoint, boot, boot_offset_us)")
    with pytest.raises(LogDamaged, match="before the first release does not open: begin with a new one"):
        await SqliteLog(path).open()


async def test_a_full_disk_is_unavailable_until_it_has_room(path):
    async with opened(path) as log:
        await log.append([b"before"])
        await log._writing.submit(
            lambda: log._writer._connection.execute("PRAGMA max_page_count=10").fetchall()
        )
        with pytest.raises(LogUnavailable, match="database or disk is full"):
            await log.append([bytes(100_000)])
        assert await log.end() == 1
        await log._writing.submit(
            lambda: log._writer._connection.execute("PRAGMA max_page_count=9999").fetchall()
        )
        assert (await log.append([b"after"])).first == 2


async def test_a_copy_without_its_lock_is_another_log(path):
    async with opened(path) as log:
        await log.append([b"a"])
        epoch = log._epoch
    again = SqliteLog(path)
    assert (await again.open()).epoch == epoch
    await again.aclose()
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    log = SqliteLog(copy)
    head = await log.open()
    await log.aclose()
    assert head.position == 1
    assert head.epoch != epoch


async def test_a_new_epoch_is_a_gap_for_a_follower(path):
    async with opened(path) as log:
        await log.append([b"a"])
        hearing = asyncio.create_task(read(log, 2))
        beside(path, ".lock").unlink()
        async with opened(path):
            with pytest.raises(LogGap) as caught:
                await hearing
        head = await log._reading.submit(log._reader.head)
        assert (caught.value.oldest, caught.value.epoch) == (1, head.epoch)
        assert len(await read(log, 1)) == 1


async def test_a_file_replaced_while_in_use_is_damaged(path):
    async with opened(path) as log:
        await log.append([b"a"])
        shutil.copy(path, path.with_name("backup"))
        path.with_name("backup").replace(path)
        with pytest.raises(LogDamaged, match="was moved or replaced while in use"):
            await log.append([b"b"])
        with pytest.raises(LogDamaged, match="was moved or replaced while in use"):
            await read(log, 2, after=1)


async def test_entries_removed_while_in_use_are_damage(path):
    async with opened(path) as log:
        await log.append([b"a", b"b"])
        with closing(sqlite3.connect(path)) as another, another:
            another.execute("DELETE FROM purgatory_log WHERE position = 2")
        with pytest.raises(
            LogDamaged, match=r"must reach position 2, ends at 1; .* delete .*\.lock"
        ) as caught:
            await log.append([b"c"])
        assert caught.value.position == 2


async def test_a_damaged_log_time_is_not_continued(path):
    async with opened(path) as log:
        await log.append([b"a"])
    with closing(sqlite3.connect(path)) as another, another:
        another.execute("UPDATE purgatory_log SET at_us = at_us + 1000000000")
    async with opened(path) as log:
        with pytest.raises(LogDamaged, match="entry 1 must match its checksum"):
            await log.append([b"b"])
        assert await log.end() == 1


@pytest.mark.parametrize("column", ["boot_offset_us = boot_offset_us + 3600000000", "boot = boot || 'x'"])
async def test_a_damaged_clock_is_not_used(path, column):
    async with opened(path) as log:
        await log.append([b"a"])
        with closing(sqlite3.connect(path)) as another, another:
            another.execute(f"UPDATE purgatory_head SET {column}")
        with pytest.raises(LogDamaged, match="damaged clock"):
            await log.append([b"b"])


async def test_a_power_loss_after_an_unsafe_end_is_a_new_epoch(path, boot):
    async with opened(path, sync="os") as log:
        await log.append([b"a", b"b"])
        epoch = log._epoch
    with closing(sqlite3.connect(path)) as disk, disk:
        disk.execute("DELETE FROM purgatory_log WHERE position = 2")  # as if it had not reached the disk
    with pytest.raises(LogDamaged, match="must reach position 2, ends at 1"):
        await SqliteLog(path).open()
    boot("second")
    log = SqliteLog(path)
    head = await log.open()
    assert head.position == 1
    assert head.epoch != epoch
    assert (await log.append([b"c"])).first == 2
    await log.aclose()


async def test_a_save_that_another_one_removed_changes_nothing(path):
    async with opened(path) as log, opened(path) as other:
        await log.append([b"a", b"b"])

        async def parts():
            yield b"half"
            with pytest.raises(RuntimeError):
                await other.save(2, broken(), keep=0)
            yield b"of it"

        async def broken():
            raise RuntimeError("the state cannot be written")
            yield

        with pytest.raises(LogError, match="checkpoint 1 was removed by another save: 2 of 3 parts are left"):
            await log.save(1, parts(), keep=0)
        assert await log.load() is None


async def test_two_saves_of_one_checkpoint_are_no_damage(path):
    async with opened(path) as log, opened(path) as other:
        await log.append([b"a"])

        async def parts():
            yield b"first"
            await other.save(1, each([b"whole"]), keep=0)
            yield b"second"

        with pytest.raises(LogError, match="checkpoint 1 is being saved by another process, too") as caught:
            await log.save(1, parts(), keep=0)
        assert type(caught.value) is LogError
        assert await saved(log) == (1, [b"whole"])


async def test_an_older_checkpoint_is_deleted_in_slices(path, monkeypatch):
    left = []
    drop_parts = SqliteWriter.drop_parts

    def counted(writer):
        more = drop_parts(writer)
        left.append(*writer._connection.execute("SELECT count(*) FROM purgatory_checkpoint").fetchone())
        return more

    monkeypatch.setattr(SqliteWriter, "drop_parts", counted)
    async with opened(path) as log:
        await log.append([b"a", b"b", b"c"])
        await log.save(1, each([b"x"] * 9), keep=1)
        await log.save(2, each([b"y"]), keep=1)
        left.clear()
        await log.save(3, each([b"z"]), keep=0)
    assert left == [8, 4, 2]


async def test_a_commit_is_bounded_in_bytes(path):
    async with opened(path) as log:
        appended = await asyncio.gather(*(log.append([bytes(1_000_000)] * 2) for _ in range(6)))
        assert [each.first for each in appended] == list(range(1, 13, 2))
        assert len({each.at_us for each in appended}) == 3


async def test_what_goes_on_while_it_closes_is_an_error(path):
    async with opened(path) as log:
        await log.append([b"a", b"b"])
        await log.save(1, each([b"state"]), keep=2)
        loaded = await log.load()

        async def parts():
            await log.aclose()
            yield b"more"

        with pytest.raises(LogError, match="log is closed"):
            await log.save(2, parts(), keep=2)
        with pytest.raises(LogError, match="log is closed"):
            await anext(loaded.parts)


async def test_batches_that_wait_share_one_commit(path):
    async with opened(path) as log:
        appended = await asyncio.gather(*(log.append([b"x", b"y"]) for _ in range(50)))
        assert [each.first for each in appended] == list(range(1, 101, 2))
        assert len({each.at_us for each in appended}) == 1

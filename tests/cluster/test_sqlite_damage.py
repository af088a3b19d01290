"""A SQLite log that was cut or flipped at random: damage is reported, or every appended entry is there."""

import asyncio
import random
import shutil

import pytest

from purgatory_async.cluster import LogDamaged, LogUnavailable, SqliteLog
from tests.cluster.reading import each, read, saved

ENTRIES = 60
POSITION = 30
PARTS = [bytes([number]) * 5000 for number in range(3)]


async def write(path, *, killed):
    """Make a log; of one whose process is killed, all is still in the write-ahead log."""
    log = SqliteLog(path / "log.db")
    await log.open()
    for number in range(ENTRIES // 2):
        await log.append([b"entry %d " % number * 10, b"and %d" % number])
    await log.save(POSITION, each(PARTS), keep=POSITION)
    if not killed:
        await log.aclose()
    copy = path / "copy"
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*.d", "*-shm", "copy"))
    await log.aclose()
    return copy


@pytest.fixture(scope="module", params=[True, False], ids=["killed", "closed"])
def left_behind(request, tmp_path_factory):
    return asyncio.run(write(tmp_path_factory.mktemp("written"), killed=request.param))


async def recall(path):
    """Everything in the log, or what is wrong with it."""
    log = SqliteLog(path / "log.db")
    try:
        await log.open()
        entries = await read(log, await log.end())
        checkpoint = await saved(log)
        await log.append([b"next"])
    except (LogDamaged, LogUnavailable) as error:
        return error
    finally:
        await log.aclose()
    return [(entry.position, entry.data) for entry in entries], checkpoint


def harm(path, draw, name):
    """Cut a file or flip one bit of it."""
    data = bytearray((path / name).read_bytes())
    if draw.random() < 0.3:
        del data[draw.randrange(len(data)) :]
    else:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    (path / name).write_bytes(data)


def test_a_log_left_behind_is_whole(left_behind, tmp_path):
    copy = shutil.copytree(left_behind, tmp_path / "copy")
    entries, checkpoint = asyncio.run(recall(copy))
    assert [position for position, _ in entries] == list(range(1, ENTRIES + 1))
    assert checkpoint == (POSITION, PARTS)


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_reported_or_does_no_harm(left_behind, tmp_path, seed):
    draw = random.Random(seed)
    whole = asyncio.run(recall(shutil.copytree(left_behind, tmp_path / "whole")))
    name = max(left_behind.iterdir(), key=lambda path: path.stat().st_size).name
    reported = 0
    for number in range(25):
        copy = shutil.copytree(left_behind, tmp_path / str(number))
        harm(copy, draw, name)
        found = asyncio.run(recall(copy))
        if isinstance(found, Exception):
            reported += 1
        else:
            entries, checkpoint = found
            assert entries == whole[0], (seed, number)
            assert checkpoint in (None, whole[1]), (seed, number)  # the log reaches back to its start
    assert reported


def test_a_log_without_its_newest_entries_is_damaged(left_behind, tmp_path):
    copy = shutil.copytree(left_behind, tmp_path / "copy")
    newest = copy / "log.db-wal"
    if not newest.exists():
        newest = copy / "log.db"
    newest.unlink()
    found = asyncio.run(recall(copy))
    assert isinstance(found, LogDamaged), found

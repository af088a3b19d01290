"""A SQLite log in several real processes: killed at any moment, at once, on a full disk."""

import asyncio
import os
import random
import socket
import subprocess
import time

import pytest

from purgatory_async.cluster import LogUnavailable, SqliteLog
from tests.cluster.appending import SIZE
from tests.cluster.reading import read
from tests.disks import small_file_system
from tests.processes import python

pytestmark = pytest.mark.slow


def start(path, name, batches=1_000_000, sync="always", stdin=subprocess.DEVNULL):
    return python("-m", "tests.cluster.appending", path, name, batches, sync, stdin=stdin, stderr=None)


def acknowledged(output):
    """Which batch the process was told to be at which position."""
    lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return {(name, int(number)): int(first) for name, number, first in lines}


async def everything(path):
    log = SqliteLog(path)
    await log.open()
    entries = await read(log, await log.end())
    await log.aclose()
    return entries


def check(entries, said):
    """Assert that there are no holes, that each batch is whole, and that what was said is where it was said."""
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.at_us for entry in entries] == sorted(entry.at_us for entry in entries)
    for start in range(0, len(entries), SIZE):
        name, number, _ = entries[start].data.decode().split()
        batch = [entry.data.decode() for entry in entries[start : start + SIZE]]
        assert batch == [f"{name} {number} {index}" for index in range(SIZE)]
    for (name, number), first in said.items():
        assert entries[first - 1].data.decode() == f"{name} {number} 0"


@pytest.mark.parametrize("sync", ["always", "os"])
@pytest.mark.parametrize("seed", range(2))
def test_killed_writers_lose_nothing_acknowledged(tmp_path, seed, sync):
    draw = random.Random(seed)
    path = tmp_path / "log.db"
    said = {}
    for cycle in range(6):
        with start(path, f"{cycle}a", sync=sync) as one, start(path, f"{cycle}b", sync=sync) as other:
            first = one.stdout.readline()
            time.sleep(draw.uniform(0, 0.2))
            one.kill()
            said |= acknowledged(first + one.stdout.read())
            time.sleep(draw.uniform(0, 0.1))
            other.kill()
            said |= acknowledged(other.stdout.read())
        check(asyncio.run(everything(path)), said)
    assert len({name for name, _ in said}) > 6


def test_processes_at_once_leave_no_hole_and_one_order(tmp_path):
    path = tmp_path / "log.db"

    async def follow():
        log = SqliteLog(path)
        await log.open()
        seen = await read(log, 2 * 200 * SIZE)
        await log.aclose()
        return seen

    here, there = socket.socketpair()  # they begin together
    with here, there, start(path, "a", 200, stdin=here) as one, start(path, "b", 200, stdin=there) as other:
        live = asyncio.run(follow())
        said = acknowledged(one.communicate()[0] + other.communicate()[0])
    assert len(said) == 400
    entries = asyncio.run(everything(path))
    assert live == entries
    check(entries, said)
    names = [entry.data.decode().split()[0] for entry in entries]
    assert any(names[index] != names[0] for index in range(len(names) // 2))  # they did run at once


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes."""
    with small_file_system(tmp_path / "disk", "2m") as where:
        yield where


async def fill(log, appended):
    while True:
        await log.append([b"%d" % len(appended), os.urandom(20_000)])
        appended.append(b"%d" % len(appended))


def test_a_full_disk_loses_nothing_and_is_recovered_from(small_disk):
    filler = small_disk / "filler"

    async def main():
        log = SqliteLog(small_disk / "log.db")
        await log.open()
        appended = []
        filler.write_bytes(bytes(1_000_000))
        with pytest.raises(LogUnavailable, match=r"log\.db is not usable"):
            await fill(log, appended)
        assert len(appended) > 5
        with pytest.raises(LogUnavailable):
            await log.append([os.urandom(1_000_000)])
        assert await log.end() == 2 * len(appended)
        filler.unlink()
        await log.append([b"after", b""])
        seen = await read(log, await log.end())
        assert [entry.data for entry in seen[::2]] == [*appended, b"after"]
        await log.aclose()

    asyncio.run(main())

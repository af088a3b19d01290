"""Closing a log while calls on it are under way: each ends with its result or `LogError`, and nothing is left."""

import asyncio
import fcntl
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from purgatory_async.cluster import LogError, SqliteLog
from tests.cluster.reading import drained, each, saved

pytestmark = pytest.mark.asyncio

TURNS = (0, 1, 2, 4, 8, 14, 22)  # of the loop, before a close


async def save(log):
    with suppress(ValueError):  # another save was faster
        await log.save(await log.end(), each([b"part"] * 3), keep=1_000_000)


CALLS = {
    "append": lambda log: log.append([b"a"]),
    "follow": lambda log: drained(log.follow(0)),
    "end": lambda log: log.end(),
    "save": save,
    "load": saved,
}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A close leaves its threads behind if they need 5 s, which they can on a busy machine."""
    monkeypatch.setattr("purgatory_async.cluster.sqlite.CLOSE_S", 60)


async def keep_calling(call, log, closing):
    while not closing.is_set():
        with suppress(LogError):
            await call(log)
        await asyncio.sleep(0)  # a log in memory answers at once


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def descriptors():
    """What this process has open: files, and a socket for each connection."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # between listing and deleting
            found.add(descriptor.readlink())
    return found


@contextmanager
def nothing_left():
    before, tasks = descriptors(), asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - tasks == set()
    assert descriptors() - before == set()


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("cuts", [False, True], ids=["connected", "reconnecting"])
async def test_calls_under_way_end_when_the_log_closes(engine, verb, cuts):
    for before in TURNS:
        with nothing_left():
            log, closing = engine.log(), asyncio.Event()
            await log.open()
            await log.append([b"something to save"])
            calls = [asyncio.create_task(keep_calling(CALLS[verb], log, closing)) for _ in range(8)]
            await turns(before)
            if cuts:
                await engine.cut()
                await turns(before)
            closing.set()
            await log.aclose()
            await asyncio.gather(*calls)
            await turns(10)  # until the loop has closed the sockets


async def test_closing_ends_an_opening(engine):
    for before in TURNS:
        with nothing_left():
            log = engine.log()
            opening = asyncio.create_task(log.open())
            await turns(before)
            await log.aclose()
            with suppress(LogError):
                await opening
            with pytest.raises(LogError, match="log is closed"):
                await log.end()
            await turns(10)


async def test_closing_ends_calls_that_wait_for_a_stopped_process(tmp_path, monkeypatch):
    monkeypatch.setattr("purgatory_async.cluster.sqlite.CLOSE_S", 0)
    with nothing_left():
        log = SqliteLog(tmp_path / "log.db")
        await log.open()
        with (tmp_path / "log.db.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            appending = asyncio.create_task(log.append([b"a"]))
            await turns(5)
            await log.aclose()
            with pytest.raises(LogError, match="the outcome of its last append"):
                await appending
        for thread in (log._writing, log._reading):
            await asyncio.to_thread(thread.join)
        await turns(5)  # until the loop has closed what is its own

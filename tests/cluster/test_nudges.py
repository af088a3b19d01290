"""Nudges that carry what was appended: whole ones are taken, all others cost a read."""

import asyncio
import socket
from contextlib import asynccontextmanager, chdir
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.cluster import Appended, SqliteLog
from purgatory_async.cluster.nudges import LARGEST, pack, unpack
from purgatory_async.cluster.sqlite_file import SqliteReader
from tests.cluster.reading import read

batches = st.lists(st.binary(max_size=300), min_size=1, max_size=20)
places = st.integers(1, 2**53)


@given(places, st.integers(0, 2**50), batches)
def test_a_batch_is_told_as_it_is(first, at_us, entries):
    told = ("0123456789abcdef01234567", Appended(first, at_us), entries)
    assert unpack(pack(*told)) == told


@pytest.mark.parametrize("entries", [[bytes(LARGEST)], [b""] * 15_000])
def test_a_batch_too_large_for_a_nudge_is_not_in_it(entries):
    nudge = pack("e", Appended(1, 1), entries)
    assert len(nudge) == 1
    assert unpack(nudge) is None


@given(batches, st.data())
def test_a_cut_or_changed_nudge_tells_nothing(entries, data):
    nudge = pack("e", Appended(7, 1), entries)
    place = data.draw(st.integers(0, len(nudge) - 1))
    assert unpack(nudge[:place]) is None
    changed = bytearray(nudge)
    changed[place] ^= data.draw(st.integers(1, 255))
    assert unpack(bytes(changed)) is None


@given(st.binary(max_size=200))
def test_other_bytes_tell_nothing(nudge):
    assert unpack(nudge) is None


@asynccontextmanager
async def pair(path):
    logs = SqliteLog(path), SqliteLog(path)
    for log in logs:
        await log.open()
    yield logs
    for log in logs:
        await log.aclose()


@pytest.fixture
def reads(monkeypatch):
    """The positions after which entries were read from the file."""
    asked, whole = [], SqliteReader.read

    def noted(reader, after, epoch):
        asked.append(after)
        return whole(reader, after, epoch)

    monkeypatch.setattr(SqliteReader, "read", noted)
    monkeypatch.setattr("purgatory_async.cluster.sqlite.POLL_S", 3600)
    return asked


async def begun(log, until, reads):
    """A follower that has found an empty log, and waits."""
    hearing = asyncio.create_task(read(log, until))
    await log.end()
    await log.end()
    assert reads == [0]
    return hearing


@pytest.mark.asyncio
async def test_what_others_append_is_not_read(tmp_path, reads):
    async with pair(tmp_path / "log.db") as (log, other):
        hearing = await begun(log, 8, reads)
        for number in range(4):
            await other.append([b"other %d" % number])
            await log.append([b"own %d" % number])
        told = await hearing
        assert [entry.data for entry in told[:2]] == [b"other 0", b"own 0"]
        assert reads == [0]
        assert told == await stored(tmp_path / "log.db", 8)


async def stored(path, until):
    log = SqliteLog(path)
    await log.open()
    entries = await read(log, until)
    await log.aclose()
    return entries


@pytest.mark.asyncio
async def test_a_lost_nudge_costs_one_read(tmp_path, reads, monkeypatch):
    async with pair(tmp_path / "log.db") as (log, other):
        hearing = await begun(log, 3, reads)
        with monkeypatch.context() as lost:
            lost.setattr(other._nudges, "send", lambda *_: None)
            await other.append([b"a"])
        await other.append([b"b"])
        await other.append([b"c"])
        assert [entry.data for entry in await hearing] == [b"a", b"b", b"c"]
        assert set(reads) == {0}


def forge(path, nudges):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger, chdir(f"{path}.d"):
        for nudge in nudges:
            for each in Path().iterdir():
                stranger.sendto(nudge, each.name)


@pytest.mark.asyncio
async def test_nudges_of_nothing_real_are_harmless(tmp_path):
    path = tmp_path / "log.db"
    async with pair(path) as (log, other):
        epoch, hearing = log._epoch, asyncio.create_task(read(log, 2))
        await log.end()
        await log.end()  # it has found an empty log, and waits: at worst for its next poll
        forged = [
            b"",
            b"\0" * 100,
            pack("another", Appended(1, 1), [b"x"]),
            pack(epoch, Appended(7, 1), [b"x"]),  # behind what is there
        ]
        forge(path, forged)
        await other.append([b"a"])
        await other.append([b"b"])
        assert [entry.data for entry in await hearing] == [b"a", b"b"]

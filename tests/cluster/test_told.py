"""What a server tells of new entries: taken where it follows an entry known here, read otherwise."""

import asyncio

import pytest
import pytest_asyncio

from purgatory_async.cluster import Appended, Entry, Head
from purgatory_async.cluster.server_log import End, Found, ServerLog
from tests.cluster.reading import read

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


class Told:
    """An engine that tells what a test has it tell; its entries are where no other call finds them."""

    losses = 0
    poll_s = 3600.0
    grace_s = 0.01

    def __init__(self):
        self.entries, self.reads = [], []

    def add(self, data):
        """Another worker appends; returns what the server tells of it."""
        before = self.digest(*self.entries[-1][1:]) if self.entries else b""
        self.entries.append(Entry(len(self.entries) + 1, 7, data))
        return before, self.entries[-1:]

    def digest(self, at_us, data):
        return b"%d %b" % (at_us, data)

    async def open(self, *, create):
        pass

    async def head(self):
        return Head("e", len(self.entries), 7, 1, 0)

    async def end(self):
        return End("e", len(self.entries), 7, 1)

    async def append(self, entries, epoch, known):
        first = len(self.entries) + 1
        for data in entries:
            self.add(data)
        return Appended(first, 7)

    async def read(self, after, known):
        self.reads.append(after)
        digest = self.digest(*self.entries[known - 1][1:]) if known else None
        return Found("e", len(self.entries), 1, digest, self.entries[after:])

    async def attend(self, heard, told, known):
        self.tell = told
        heard()
        await asyncio.Event().wait()

    async def aclose(self):
        pass


@pytest_asyncio.fixture
async def told():
    """An engine, a log on it, and a follower that has read entry 1."""
    engine = Told()
    engine.add(b"1")
    log = ServerLog(engine)
    await log.open()
    hearing = asyncio.create_task(read(log, 4))
    await asyncio.sleep(0.1)
    engine.reads.clear()
    yield engine, log, hearing
    hearing.cancel()
    await log.aclose()


async def data_of(hearing):
    return [entry.data for entry in await hearing]


async def test_what_follows_a_known_entry_is_not_read(told):
    engine, _, hearing = told
    for data in (b"2", b"3", b"4"):
        engine.tell(*engine.add(data))
    assert await data_of(hearing) == [b"1", b"2", b"3", b"4"]
    assert engine.reads == []


async def test_what_comes_after_an_own_batch_is_in_order(told):
    engine, log, hearing = told
    others = engine.add(b"2")
    await log.append([b"3"])
    await asyncio.sleep(0.005)
    engine.tell(*others)
    engine.tell(*engine.add(b"4"))
    assert await data_of(hearing) == [b"1", b"2", b"3", b"4"]
    assert engine.reads == []


async def test_what_is_not_told_is_read_after_a_moment(told):
    engine, log, hearing = told
    engine.add(b"2")
    await log.append([b"3", b"4"])
    assert await data_of(hearing) == [b"1", b"2", b"3", b"4"]
    assert engine.reads[0] == 1


@pytest.mark.parametrize("before", [b"", b"another", b"7 9"])
async def test_what_follows_another_entry_is_read(told, before):
    engine, _, hearing = told
    for data in (b"2", b"3", b"4"):
        engine.add(data)
    engine.tell(before, [Entry(2, 7, b"of another history")])
    assert await data_of(hearing) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("entries", [[Entry(2, -1, b"x")], [Entry(2, 7, b"x"), Entry(4, 7, b"y")]])
async def test_what_cannot_be_is_read(told, entries):
    engine, _, hearing = told
    before, _ = engine.add(b"2")
    engine.add(b"3"), engine.add(b"4")
    engine.tell(before, entries)
    assert await data_of(hearing) == [b"1", b"2", b"3", b"4"]

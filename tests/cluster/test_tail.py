"""What a log's followers take from memory, and what they read from the engine."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from purgatory_async.cluster import Appended, Entry
from purgatory_async.cluster.connection import OpenOnce
from purgatory_async.cluster.tail import Tail

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

POLL_S = 10.0


class Stored:
    """Entries in an engine, and what followers read of them."""

    def __init__(self):
        self.open, self.entries, self.reads = OpenOnce(), [], 0
        self.open.open()
        self.tail = Tail(self.open, lambda: POLL_S)

    def append(self, *data, own=True, epoch="e"):
        first = len(self.entries) + 1
        self.entries += data
        if own:
            self.tail.append(epoch, Appended(first, 100), data)

    async def read(self, after):
        self.reads += 1
        return [
            Entry(place, 100, self.entries[place - 1]) for place in range(after + 1, len(self.entries) + 1)
        ]


@asynccontextmanager
async def following(stored):
    """Collect what a follower gets, from when it has read what is there."""
    got = []

    async def follow():
        async with aclosing(stored.tail.follow(0, "e", stored.read)) as reads:
            async for entries in reads:
                got.extend(entry.data for entry in entries)

    task = asyncio.create_task(follow())
    await asyncio.sleep(1)
    stored.reads = 0
    yield got
    task.cancel()


async def test_own_batches_are_not_read():
    stored = Stored()
    async with following(stored) as got:
        for data in (b"a", b"b", b"c"):
            stored.append(data)
            await asyncio.sleep(0.1)
    assert (got, stored.reads) == ([b"a", b"b", b"c"], 0)


async def test_a_batch_behind_others_is_read_in_order():
    stored = Stored()
    async with following(stored) as got:
        stored.append(b"other", own=False)
        stored.append(b"own")
        await asyncio.sleep(0.1)
    assert got == [b"other", b"own"]


async def test_a_batch_that_another_one_replaced_is_read():
    stored = Stored()
    async with following(stored) as got:
        stored.append(b"a")
        stored.append(b"b")
        await asyncio.sleep(0.1)
    assert got == [b"a", b"b"]


async def test_a_batch_of_another_epoch_is_read():
    stored = Stored()
    async with following(stored) as got:
        stored.append(b"a", epoch="another")
        await asyncio.sleep(0.1)
        assert (got, stored.reads) == ([b"a"], 2)  # the second one finds nothing


async def test_a_hint_during_a_read_causes_another_read():
    stored = Stored()
    plain = stored.read

    async def hinted(after):
        entries = await plain(after)
        if stored.reads == 1:
            stored.append(b"late", own=False)
            stored.tail.hint()
        return entries

    stored.read = hinted
    async with following(stored) as got:
        assert got == [b"late"]


async def test_a_lost_hint_is_made_up_by_the_poll():
    stored = Stored()
    async with following(stored) as got:
        stored.append(b"other", own=False)
        await asyncio.sleep(POLL_S / 2)
        assert got == []
        await asyncio.sleep(POLL_S)
    assert got == [b"other"]

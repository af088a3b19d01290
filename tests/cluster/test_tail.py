"""What a log's followers take from memory, and what they read from the engine."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.cluster import Appended, Entry
from purgatory_async.cluster.connection import OpenOnce
from purgatory_async.cluster.tail import Tail

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

POLL_S = 10.0


class Stored:
    """Entries in an engine, and what followers read of them."""

    def __init__(self, grace_s=0.0):
        self.open, self.entries, self.reads = OpenOnce(), [], 0
        self.open.open()
        self.tail = Tail(self.open, lambda: POLL_S, lambda: grace_s)
        self.batches = []

    def append(self, *data, own=True, epoch="e"):
        first = len(self.entries) + 1
        self.entries += data
        self.batches.append((epoch, Appended(first, 100), data))
        if own:
            self.tell(-1)

    def tell(self, number):
        """Tell a batch, maybe again, or after later ones."""
        self.tail.append(*self.batches[number])

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


async def test_missing_batches_may_come_late():
    stored = Stored(grace_s=1.0)
    async with following(stored) as got:
        stored.append(b"a", own=False)
        stored.append(b"b")
        await asyncio.sleep(0.5)
        assert got == []
        stored.tell(0)
        await asyncio.sleep(0.5)
    assert (got, stored.reads) == ([b"a", b"b"], 0)


async def test_missing_batches_are_read_after_a_while():
    stored = Stored(grace_s=1.0)
    async with following(stored) as got:
        stored.append(b"a", own=False)
        stored.append(b"b")
        await asyncio.sleep(1.5)
        assert got == [b"a", b"b"]


async def test_two_followers_get_the_same_batches():
    stored = Stored()
    async with following(stored) as got, following(stored) as too:
        for data in (b"a", b"b"):
            stored.append(data)
        await asyncio.sleep(0.1)
        assert (got, too, stored.reads) == ([b"a", b"b"], [b"a", b"b"], 0)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("tell"), st.integers(0, 9)),
    st.tuples(st.just("cut"), st.integers(0, 9), st.integers(1, 2)),
    st.tuples(st.just("foreign"), st.integers(0, 12)),
    st.tuples(st.just("hint")),
    st.tuples(st.just("pause"), st.sampled_from([0.0, 0.005, 0.05, 2 * POLL_S])),
)


@given(st.lists(STEPS, max_size=25), st.sampled_from([0.0, 0.01]))
async def test_batches_lost_doubled_or_late_change_no_order(steps, grace_s):
    stored = Stored(grace_s)
    async with following(stored) as got:
        for kind, *said in steps:
            match kind, *said:
                case "append", count, own:
                    start = len(stored.entries)
                    stored.append(*(b"%d" % number for number in range(start, start + count)), own=own)
                case "tell", number if stored.batches:
                    stored.tell(number % len(stored.batches))
                case "cut", number, count if stored.batches:  # as after a read that ends within a batch
                    epoch, (first, at_us), data = stored.batches[number % len(stored.batches)]
                    stored.tail.append(epoch, Appended(first, at_us), data[:count])
                case "foreign", number:
                    stored.tail.append("another", Appended(number + 1, 1), [b"x"])
                case ("hint",):
                    stored.tail.hint()
                case "pause", seconds:
                    await asyncio.sleep(seconds)
            assert got == stored.entries[: len(got)]
        await asyncio.sleep(2 * POLL_S)
        assert got == stored.entries

"""A reader that applies what it appends at once, and what it reads in order."""

import pytest

from purgatory_async.cluster import Appended, Entry, Head, LogGap
from purgatory_async.cluster.replica import Replica

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


class Scripted:
    """A log that hands out given reads, and calls back before each of them."""

    def __init__(self, *reads):
        self.reads = reads

    async def follow(self, after):
        for read in self.reads:
            if callable(read):
                read()
            else:
                yield [Entry(position, 100, data) for position, data in read]


def replica_of(log):
    applied = []
    replica = Replica(log, Head("e", 5, 0, 1, 0), lambda entry: applied.append((entry.position, entry.data)))
    return replica, applied


async def test_an_append_right_behind_is_applied_at_once():
    replica, applied = replica_of(Scripted([(6, b"a"), (7, b"b")], [(8, b"c")]))
    replica.appended(Appended(6, 100), [b"a", b"b"])
    assert applied == [(6, b"a"), (7, b"b")]
    await replica.run()
    assert applied == [(6, b"a"), (7, b"b"), (8, b"c")]
    assert replica.position == 8


async def test_an_append_further_on_waits_for_what_is_before_it():
    replica, applied = replica_of(Scripted([(6, b"x")], [(7, b"a")]))
    replica.appended(Appended(7, 100), [b"a"])
    assert applied == []
    await replica.run()
    assert applied == [(6, b"x"), (7, b"a")]


async def test_an_append_between_two_reads_keeps_the_order():
    log = Scripted([(6, b"x")], lambda: replica.appended(Appended(7, 100), [b"a"]), [(7, b"a"), (8, b"y")])
    replica, applied = replica_of(log)
    await replica.run()
    assert applied == [(6, b"x"), (7, b"a"), (8, b"y")]


async def test_an_append_that_the_engine_lost_is_a_gap():
    replica, _ = replica_of(Scripted([(6, b"a"), (7, b"others")]))
    replica.appended(Appended(6, 100), [b"a", b"b"])
    with pytest.raises(LogGap, match="entry 7 must be the one that was appended") as caught:
        await replica.run()
    assert (caught.value.oldest, caught.value.epoch) == (7, "e")

"""Streams of a cluster's signals: a client that comes back may come to another worker."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, MemoryLog, MemoryStore
from purgatory_async.patterns import Broadcast
from purgatory_async.web._shutdown import held_on
from tests.web.exchange import Stream
from tests.web.turns import after_passes

pytestmark = [
    pytest.mark.asyncio(loop_factories=["virtual"]),
    pytest.mark.usefixtures("nothing_stays_behind"),
]


@asynccontextmanager
async def workers(count):
    """Clusters on one log, and a broadcast of each."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        clusters = []
        for _ in range(count):
            purgatory = await stack.enter_async_context(Purgatory())
            clusters.append(await stack.enter_async_context(Cluster(purgatory, MemoryLog(store))))
        yield clusters, [Broadcast.of(cluster, prefix="news:") for cluster in clusters]


def follow(news, **request):
    return Stream(news, encode=lambda signalled: signalled.value, **request).start()


async def left(stream):
    stream.hang_up()
    await stream.task


async def test_a_client_goes_on_at_another_worker():
    async with workers(2) as ((one, other), broadcasts):
        first = follow(broadcasts[0])
        await asyncio.sleep(1)
        await one.signal("news:a", 1)
        await asyncio.sleep(1)
        await left(first)
        await other.signal("news:b", 2)
        second = follow(broadcasts[1], last_id=first.last_id)
        await one.signal("news:a", 3)
        await asyncio.sleep(1)
        await left(second)
    assert (first.data, second.data) == (["1"], ["2", "3"])


async def test_an_event_is_not_held_back_by_what_comes_behind_it():
    async with workers(1) as ([cluster], [news]):
        stream = follow(news)
        await asyncio.sleep(1)
        await asyncio.gather(cluster.signal("news:a", 1), cluster.signal("weather", 2))
        await asyncio.sleep(1)
        assert stream.data == ["1"]
        await left(stream)


@pytest.mark.parametrize("behind", [False, True])
async def test_a_stop_does_not_wait_for_the_next_event(behind):
    async with workers(1) as ([cluster], [news]):
        stream = follow(news)
        await asyncio.sleep(1)
        await cluster.signal("news:a", 1)
        if behind:
            await cluster.signal("weather", 2)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        before = loop.time()
        held_on(loop).release()
        await stream.task
        assert (stream.data, stream.answered, loop.time() - before < 0.1) == (["1"], True, True)


@pytest.mark.parametrize("offset", range(12))
async def test_what_was_applied_before_a_stop_is_sent(offset):
    async with workers(1) as ([cluster], [news]):
        stream = follow(news)
        await asyncio.sleep(1)
        applied = []

        def stop():
            applied.append(cluster.position)
            held_on(asyncio.get_running_loop()).release()

        after_passes(offset, stop)
        await asyncio.gather(cluster.signal("news:a", 1), cluster.signal("weather", 2))
        await stream.task
        assert stream.data == (["1"] if applied[0] else [])

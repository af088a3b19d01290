"""A broadcast of a cluster's signals: the same indexes at every worker, its gaps, and its end."""

import asyncio
import gc
import weakref

import pytest
import pytest_asyncio

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, PurgatoryError
from purgatory_async.cluster import Cluster, LogError, MemoryLog, MemoryStore
from purgatory_async.patterns import Broadcast, Lagged, Published
from tests.cluster.reading import each
from tests.cluster.workers import Workers
from tests.patterns.waiters import Waiter

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest_asyncio.fixture
async def workers():
    async with Workers() as made:
        yield made


async def signal(worker, *keys):
    """Signal on each key; returns the positions."""
    return [await worker.cluster.signal(key, number) for number, key in enumerate(keys)]


async def keys_after(news, after, number):
    """The next events, as (index, key), and as they are where they are no items."""
    subscriber, events = news.subscribe(after=after), []
    for _ in range(number):
        event = await anext(subscriber)
        events.append((event.index, event.item.key) if isinstance(event, Published) else event)
    return events


async def test_every_worker_has_the_same_indexes(workers):
    here, there = await workers.start(), await workers.start()
    several = [Broadcast.of(worker.cluster) for worker in (here, there)]
    begun = [news.newest for news in several]
    positions = await signal(here, "a", "b", "a")
    await there.cluster.caught_up()
    expected = list(zip(positions, "aba", strict=True))
    for news, after in zip(several, begun, strict=True):
        assert await keys_after(news, after, 3) == expected
        assert await keys_after(news, positions[0], 2) == expected[1:]
        assert (news.oldest, news.newest) == (positions[0], positions[2])
        assert news.epoch == workers.store.epoch
    event = await several[1].next(positions[0])
    assert (event.item.value, event.item.position) == (1, positions[1])


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ({"key": "ab"}, ["ab"]),
        ({"prefix": "a"}, ["a", "ab", "abc"]),
        ({"prefix": ""}, ["a", "ab", "abc", "b"]),
    ],
    ids=["key", "prefix", "all"],
)
async def test_it_hears_its_keys_only(workers, wanted, heard):
    worker = await workers.start()
    news = Broadcast.of(worker.cluster, **wanted)
    begun = news.newest
    positions = await signal(worker, "a", "ab", "abc", "b")
    of = dict(zip(("a", "ab", "abc", "b"), positions, strict=True))
    assert await keys_after(news, begun, len(heard)) == [(of[key], key) for key in heard]
    assert news.newest == positions[-1]  # also what others have heard is a good `after`
    waiter = Waiter(news.next(news.newest))
    (position,) = await signal(worker, "ab")
    assert (await waiter.end()).index == position


async def test_what_was_before_it_is_a_lag_and_what_was_not_is_none(workers):
    worker = await workers.start()
    (before,) = await signal(worker, "a")
    news = Broadcast.of(worker.cluster, max_items=2)
    first, *_, last = await signal(worker, "b", "c", "d")
    assert await keys_after(news, before - 1, 2) == [Lagged(None, first), (first + 1, "c")]
    assert await keys_after(news, before, 1) == [Lagged(None, first)]
    assert await keys_after(news, first, 2) == [(first + 1, "c"), (last, "d")]
    live = news.subscribe(after=last)
    await signal(worker, "e", "f", "g")
    assert await anext(live) == Lagged(None, last + 1)


async def test_an_after_of_a_worker_ahead_is_waited_for(workers):
    here, there = await workers.start(), await workers.start()
    news = Broadcast.of(there.cluster)
    there.log.deaf_s = 10
    first, second = await signal(here, "a", "b")
    assert there.cluster.position < first
    waiter, subscriber = Waiter(keys_after(news, first, 1)), news.subscribe(after=first)
    cancelled = Waiter(anext(subscriber))
    expiring = Waiter(news.next(first, timeout=1))
    await asyncio.sleep(1.5)
    cancelled.cancel()
    assert (waiter.got, await cancelled.end()) == (None, "cancelled")
    assert isinstance(expiring.got, OperationExpired)
    assert str(expiring.got) == f"no item after {first} was published within 1 s"
    there.log.deaf_s = 0
    await asyncio.sleep(60)
    assert waiter.got == [(second, "b")]
    assert (await anext(subscriber)).index == second


async def test_an_after_that_the_log_does_not_have_is_a_lag(workers):
    worker = await workers.start()
    news = Broadcast.of(worker.cluster)
    (position,) = await signal(worker, "a")
    assert await keys_after(news, position + 1, 2) == [Lagged(None, position - 1), (position, "a")]
    assert await news.next(10**18) == Lagged(None, position - 1)


async def test_a_gap_of_the_log_is_a_lag_in_its_place(workers):
    here, there = await workers.start(), await workers.start()
    news = Broadcast.of(there.cluster)
    subscriber, behind = news.subscribe(), news.subscribe()
    await signal(here, "a")
    await there.cluster.caught_up()
    there.log.deaf_s = 3
    *_, trimmed, newest = await signal(here, "b", "c", "d")
    log = workers.log()
    await log.open()
    await log.save(trimmed, each([b"a state"]), keep=0)
    there.log.deaf_s = 0
    there.log.cut()
    await there.cluster.caught_up()
    assert (await anext(subscriber)) == (await anext(behind)) == Lagged(None, trimmed)
    assert (await anext(subscriber)).index == newest


async def test_after_a_loss_of_the_engine_indexes_begin_anew(workers):
    worker = await workers.start()
    news = Broadcast.of(worker.cluster)
    subscriber, epoch = news.subscribe(), news.epoch
    positions = await signal(worker, "a", "b", "c")
    waiter = Waiter(news.next(positions[-1]))
    workers.lose(2)
    await asyncio.sleep(10)
    assert news.epoch == workers.store.epoch != epoch
    assert await waiter.end() == await anext(subscriber) == Lagged(None, positions[0])
    (position,) = await signal(worker, "d")
    assert (await anext(subscriber)).index == position


async def test_it_cannot_be_published_to(workers):
    worker = await workers.start()
    news = Broadcast.of(worker.cluster)
    with pytest.raises(PurgatoryError, match=r"is fed by <Cluster .*: cannot publish 'a'; signal there"):
        news.publish("a")


async def test_arguments_are_checked_and_the_cluster_must_be_open():
    async with Purgatory() as purgatory, Cluster(purgatory, MemoryLog(MemoryStore())) as cluster:
        with pytest.raises(ValueError, match="key or prefix must be given, not both, got 'a' and 'b'"):
            Broadcast.of(cluster, "a", prefix="b")
        with pytest.raises(TypeError, match="cluster must be a Cluster, got <Purgatory"):
            Broadcast.of(Purgatory())
        with pytest.raises(TypeError, match="key and prefix must be text, got 7"):
            Broadcast.of(cluster, prefix=7)
        with pytest.raises(ValueError, match="max_items must be at least 1"):
            Broadcast.of(cluster, max_items=0)
    with pytest.raises(LogError, match="cluster is closed"):
        Broadcast.of(cluster)


async def test_its_subscribers_end_with_the_cluster():
    async with Purgatory() as purgatory:
        async with Cluster(purgatory, MemoryLog(MemoryStore())) as cluster:
            news = Broadcast.of(cluster)
            waiting, ahead = Waiter(anext(news.subscribe())), Waiter(anext(news.subscribe(after=100)))
            reading = news.subscribe()
            await cluster.signal("a")
            assert (await waiting.end()).item.key == "a"
            assert await ahead.end() == Lagged(None, news.oldest - 1)
            waiting = Waiter(news.next(news.newest))
            await asyncio.sleep(0)
        assert [event.item.key async for event in reading] == ["a"]
        assert isinstance(await waiting.end(), PurgatoryClosed)
        with pytest.raises(StopAsyncIteration):
            await anext(news.subscribe(after=100))


async def test_the_cluster_does_not_keep_it(workers):
    worker = await workers.start()
    gc.collect()
    gc.disable()
    try:
        news = Broadcast.of(worker.cluster)
        subscriber = news.subscribe()
        await signal(worker, "a")
        gone = weakref.ref(news), weakref.ref(subscriber)
        del news
        assert (await anext(subscriber)).item.key == "a"
        del subscriber
        assert [ref() for ref in gone] == [None, None]
        assert len(worker.cluster._applier.hearers) == 0
    finally:
        gc.enable()
    await signal(worker, "b")

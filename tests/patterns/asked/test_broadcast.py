"""What people asked for who send one stream to many: the fault of their way, and `Broadcast` without it."""

import asyncio

import pytest

from purgatory_async.patterns import Broadcast, Lagged, Published
from purgatory_async.testing import settle
from tests.patterns.waiters import Waiter

pytestmark = pytest.mark.asyncio


async def items_of(subscriber, number):
    return [(await anext(subscriber)).item for _ in range(number)]


async def test_sse_starlette_209_a_client_that_takes_nothing(purgatory):
    """sysid/sse-starlette#209: a queue for each client has no limit, and a cancelled client stays in the list.

    The branch for a full queue is never reached. The clean-up is behind ``except Exception``, which a cancellation
    passes. With a limit, an evicted client would wait forever for the next event unless a sentinel tells it to leave.
    """
    queues = []

    async def client():
        queue = asyncio.Queue()
        queues.append(queue)
        try:
            while True:
                await queue.get()
        except Exception:  # noqa: BLE001 - as it was
            queues.remove(queue)

    slow, leaves = asyncio.Queue(), Waiter(client())
    queues.append(slow)
    await settle()
    leaves.cancel()
    await settle()
    for number in range(10_000):
        for queue in queues:
            queue.put_nowait(number)
    assert [queue.qsize() for queue in queues] == [10_000, 10_000]

    news = Broadcast(purgatory, max_items=100)
    slow, leaves = news.subscribe(), Waiter(anext(news.subscribe()))
    await settle()
    leaves.cancel()
    await settle()
    for number in range(10_000):
        news.publish(number)
    assert (news.subscribers, news.newest - news.oldest + 1) == (1, 100)
    assert await anext(slow) == Lagged(missed=9_900, index=9_900)
    assert await items_of(slow, 100) == list(range(9_900, 10_000))


async def test_open_cowork_662_an_event_between_list_and_subscribe(purgatory):
    """joe-broadhead/open-cowork#662: subscribers of a topic share one cursor, which one of them moves on for all.

    A client lists the events so far, then subscribes. An event that comes in between is read for another subscriber
    first: the shared cursor is past it when the late one joins, and it never gets it.
    """

    class Topic:
        def __init__(self):
            self.events, self.cursor, self.queues = [], 0, []

        def poll(self):
            for event in self.events[self.cursor :]:
                for queue in self.queues:
                    queue.put_nowait(event)
            self.cursor = len(self.events)

        def subscribe(self):
            self.queues.append(asyncio.Queue())
            return self.queues[-1]

    topic = Topic()
    early, late_has = topic.subscribe(), list(topic.events)
    topic.events.append("between")
    topic.poll()
    late = topic.subscribe()
    topic.events.append("after")
    topic.poll()
    assert [early.get_nowait(), early.get_nowait()] == ["between", "after"]
    assert [*late_has, late.get_nowait()] == ["after"]
    assert late.empty()

    news = Broadcast(purgatory)
    early, late_is_at = news.subscribe(), news.newest
    news.publish("between")
    late = news.subscribe(after=late_is_at)
    news.publish("after")
    assert await items_of(early, 2) == await items_of(late, 2) == ["between", "after"]


async def test_meho_1321_a_page_opened_later(purgatory):
    """evoila/meho#1321: a stream begins at the end of the log, so a page opened on a quiet day stays empty.

    Many entries are there, and the page says that it is live. Reading some of them first, and then the tail, leaves the
    gap of the request above.
    """
    queues = []

    def publish(entry):
        for queue in queues:
            queue.put_nowait(entry)

    for number in range(76):
        publish(number)
    queues.append(asyncio.Queue())
    assert queues[0].empty()

    news = Broadcast(purgatory)
    for number in range(76):
        news.publish(number)
    page = news.subscribe(after=max(news.oldest - 1, news.newest - 50))
    assert await items_of(page, 50) == list(range(26, 76))
    waiter = Waiter(anext(page))
    await settle()
    news.publish("live")
    assert await waiter.end() == Published(77, "live")

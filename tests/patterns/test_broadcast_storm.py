"""A million events to subscribers that come and go: no gap, no double, and what they missed is counted."""

import asyncio
from random import Random

import pytest

from purgatory_async import Purgatory
from purgatory_async.patterns import Broadcast, Lagged
from purgatory_async.testing import assert_clean, settle

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

EVENTS = 1_000_000
SUBSCRIBERS = 8
KEPT = 2_000
BURST = 400  # at most so many in a pass of the loop: who is away for longer than a few passes lags


class Client:
    """Reads, breaks off at random, stays away for some passes, and comes back behind what it has had."""

    def __init__(self, news, seed):
        self.news = news
        self.random = Random(seed)
        self.after = self.had = self.missed = self.connections = 0

    async def run(self):
        """Read until the broadcast is closed."""
        while not await self.connection():
            for _ in range(self.random.choice((0, 0, 1, 3, 12))):
                await asyncio.sleep(0)

    async def connection(self):
        """Read for a while; returns whether the broadcast has ended."""
        self.connections += 1
        left = self.random.randrange(1, 20_000)
        async for event in self.news.subscribe(after=self.after):
            self.take(event)
            left -= 1
            if not left:
                return False
        return True

    def take(self, event):
        """Check that an event is the next one."""
        if isinstance(event, Lagged):
            assert event.missed == event.index - self.after > 0
            self.missed += event.missed
        else:
            assert event.index == event.item == self.after + 1
            self.had += 1
        self.after = event.index


async def test_reconnecting_subscribers_have_no_gap_and_no_double(record_property):
    random = Random(EVENTS)
    async with Purgatory() as purgatory:
        news = Broadcast(purgatory, max_items=KEPT)
        clients = [Client(news, seed) for seed in range(SUBSCRIBERS)]
        tasks = [asyncio.create_task(client.run()) for client in clients]
        breaks = 0
        while news.newest < EVENTS:
            for _ in range(min(random.randrange(1, BURST), EVENTS - news.newest)):
                news.publish(news.newest + 1)
            if random.random() < 0.2:  # a connection is cut where it stands
                cut = random.randrange(SUBSCRIBERS)
                tasks[cut].cancel()
                await asyncio.wait([tasks[cut]])
                tasks[cut] = asyncio.create_task(clients[cut].run())
                breaks += 1
            await asyncio.sleep(0)
        news.close()
        await asyncio.gather(*tasks)
        await settle()
        assert [client.after for client in clients] == [EVENTS] * SUBSCRIBERS
        assert [client.had + client.missed for client in clients] == [EVENTS] * SUBSCRIBERS
        assert news.subscribers == 0
        assert_clean(purgatory)
    record_property("connections", sum(client.connections for client in clients))
    record_property("missed", sum(client.missed for client in clients))
    assert sum(client.missed for client in clients) > 0
    assert breaks > 100

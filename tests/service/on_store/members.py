"""Services on one store in the `VirtualTimeLoop`: each a worker with a client, behind connections that break."""

import asyncio
import itertools
from contextlib import AsyncExitStack, suppress

from purgatory_async.cluster import LogError, SqliteLog
from purgatory_async.durable import backing
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import VirtualTimeLoop
from tests.cluster.faulty import FaultyLog
from tests.durable.log_workers import EpochLog, Store
from tests.service.conftest import Client


class Member(Client):
    """A worker's service, and its client.

    Attributes:
        link: Its connection to the store; None in the memory mode.
        running: The task of `Service.run`.
    """

    def __init__(self, number, link, settings):
        self.link = link
        store = "memory" if link is None else f"sqlite:///{number}"
        super().__init__(Settings(store=store, jitter=0, **settings))
        self.running = None

    def run(self):
        self.running = asyncio.create_task(self.service.run())

    async def connected(self):
        """Wait until all that is in the store is applied here."""
        while not self.service.state.connected:  # noqa: ASYNC110 - it says nothing when it changes
            await asyncio.sleep(0.01)
        await self.service.state.caught_up()

    async def request(self, method, target, body=None, headers=()):
        """Send a request and wait for its answer."""
        exchange = self.start(method, target, body, headers)
        await exchange.over
        return exchange

    async def held(self, method, target, body=None, headers=()):
        """Send a request that is held half a second later."""
        exchange = self.start(method, target, body, headers)
        await asyncio.sleep(0.5)
        assert not exchange.answered, f"{method} {target} was answered {exchange.status}: {exchange.body}"
        return exchange

    async def stop(self):
        await self.service.aclose()
        if self.running is not None:
            with suppress(LogError):
                await self.running


class Members:
    """Workers on one store; as a context manager it stops them, and checks that none has logged a fault."""

    def __init__(self, monkeypatch):
        self.store = Store() if isinstance(asyncio.get_running_loop(), VirtualTimeLoop) else None
        self.members = []
        self._links = {}
        self._numbers = itertools.count(1)
        self._stack = AsyncExitStack()
        monkeypatch.setattr(backing, "log_of", lambda store, *, sync: self._links[store.name])

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        await self._stack.aclose()
        for member in self.members:
            assert "request failed" not in member.log.getvalue()
            assert member.service.held.requests.count == member.service.held.takers.waiters.count == 0

    async def start(self, **settings):
        """Start another worker, and wait until it is connected."""
        return await self._begin(*self._link(), settings)

    async def loading(self, **settings):
        """Start another worker, which loads its state once its link is no longer ``away``."""
        number, link = self._link()
        member = self._make(number, link, settings)
        link.away = True
        member.run()
        await asyncio.sleep(1)
        assert member.service.state.position == 0
        return member

    async def on_file(self, path, **settings):
        """Start a worker on a SQLite file of its own, in real time."""
        number = next(self._numbers)
        link = self._links[str(number)] = SqliteLog(path, sync="os")
        return await self._begin(number, link, settings)

    async def in_memory(self, **settings):
        """Start a service without a store."""
        return await self._begin(0, None, settings)

    def _link(self):
        number = next(self._numbers)
        link = self._links[str(number)] = FaultyLog(EpochLog(self.store))
        return number, link

    def _make(self, number, link, settings):
        member = Member(number, link, settings)
        self.members.append(member)
        self._stack.push_async_callback(member.stop)
        return member

    async def _begin(self, number, link, settings):
        member = self._make(number, link, settings)
        member.run()
        await member.connected()
        return member

    def trim(self, member):
        """Save a checkpoint of a worker's state, and keep no entry before it."""
        self.store.checkpoint_of(member.service.fold)

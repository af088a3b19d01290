"""Instances of `Durable` on one store in the `VirtualTimeLoop`, as in several processes, behind broken connections."""

import asyncio
from contextlib import AsyncExitStack

from purgatory_async.durable import Durable
from tests.cluster.faulty import FaultyLog
from tests.durable.log_workers import EpochLog, Store


class Member(Durable):
    """A process's `Durable`.

    Attributes:
        link: Its connection to the store.
    """

    def __init__(self, link, **settings):
        self.link = link
        super().__init__(link, **settings)

    @property
    def keeper(self):
        return self._open.keeper


class Members:
    """Processes on one store; as a context manager it stops them."""

    def __init__(self):
        self.store = Store()
        self._stack = AsyncExitStack()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        await self._stack.aclose()

    async def open(self, **settings):
        """Open the store in another process."""
        return await self._stack.enter_async_context(Member(FaultyLog(EpochLog(self.store)), **settings))

    def trim(self, member):
        """Save a checkpoint of a process's state, and keep no entry before it."""
        self.store.checkpoint_of(member.keeper.fold)

    async def fall_behind(self, here, happen, *, seconds=1):
        """Let ``here`` miss what another process does within some seconds, until the log has no entries of it."""
        other = await self.open()
        here.link.deaf_s = seconds
        await other.submit(["noise"])  # is on its way already: it will arrive
        await asyncio.sleep(0.1)
        await happen(other)
        self.trim(other)
        here.link.deaf_s = 0
        here.link.cut()
        await asyncio.sleep(seconds)
        await here.caught_up()
        assert here.keeper.state.recovery.gaps == 1

    async def lose(self, count):
        """Lose the newest entries, and wait until all know."""
        self.store.lose(count)
        await asyncio.sleep(5)

"""Workers on one store in the `VirtualTimeLoop`, each behind connections that break."""

import asyncio
from contextlib import AsyncExitStack

import msgspec

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, MemoryLog, MemoryStore
from purgatory_async.cluster.log import new_epoch
from tests.cluster.faulty import FaultyLog


class Worker:
    """A purgatory and its cluster.

    Attributes:
        seen: The signals that it has applied, as (position, key, value).
        gaps: What `on_gap` was called with.
    """

    def __init__(self, store):
        self.purgatory = Purgatory()
        self.log = FaultyLog(MemoryLog(store))
        self.seen = []
        self.gaps = []
        self.cluster = Cluster(self.purgatory, self.log, apply=self.apply, on_gap=self.gaps.append)

    def apply(self, signalled):
        self.seen.append((signalled.position, signalled.key, signalled.value))

    @property
    def keys(self):
        """The keys it has seen, in order."""
        return [key for _, key, _ in self.seen]


class Workers:
    """Workers on one store; as a context manager it closes them."""

    def __init__(self):
        self.store = MemoryStore(clock=asyncio.get_running_loop())
        self._stack = AsyncExitStack()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        await self._stack.aclose()

    async def start(self):
        """Start another worker."""
        worker = Worker(self.store)
        await self._stack.enter_async_context(worker.purgatory)
        await self._stack.enter_async_context(worker.cluster)
        return worker

    def log(self):
        """Another log on the store."""
        return MemoryLog(self.store)

    def append(self, **members):
        """Append an entry as another program would."""
        return self.store.append([msgspec.json.encode(members)]).first

    def entries(self):
        """What is in the log, without introductions."""
        decoded = [msgspec.json.decode(entry.data) for entry in self.store.entries]
        return [entry for entry in decoded if entry["k"] != "alive"]

    def lose(self, count):
        """Lose the newest entries, as a failover to a replica that lags behind does."""
        del self.store.entries[-count:]
        self.store.epoch = new_epoch()
        self.store.wake()

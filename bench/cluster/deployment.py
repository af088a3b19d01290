"""Ways to run the service that are compared: in memory, and two workers on each store."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw

from bench.cluster.stores import Store, store_named
from bench.cluster.worker import Worker
from purgatory_async.durable.checkpoints.checkpointing import save
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.urls import opened, parsed

__all__ = ["DEPLOYMENTS", "Deployment", "deployed"]

FLAGS: Final = ("--max-wait", "60s", "--jitter", "0", "--max-pending", "1000000")
BATCH: Final = 1000  # entries
HOUR_US: Final = 3_600_000_000
DEPLOYMENTS: Final[dict[str, tuple[str, ...]]] = {
    "memory": (),
    "SQLite, `os`": ("sqlite", "--store-sync", "os"),
    "SQLite, `always`": ("sqlite",),
    "Postgres": ("postgres",),
    "Redis": ("redis",),
}
"""Store and flags, by the name in the table."""


@dataclass(slots=True)
class Deployment:
    """Workers on one store, or one in memory.

    Attributes:
        name: In the table.
        store: None in memory.
        flags: The flags of each worker.
        workers: The workers that were started.
    """

    name: str
    store: Store | None
    flags: tuple[str, ...]
    workers: list[Worker] = field(default_factory=list[Worker])

    async def start(self) -> None:
        """Start two workers, in memory one, and wait until they are ready."""
        for _ in range(1 if self.store is None else 2):
            await self.add()

    async def add(self) -> float:
        """Start one more worker; return after how many seconds it was ready."""
        begin = time.perf_counter()
        worker = Worker(*FLAGS, *self.flags)
        self.workers.append(worker)
        await worker.start()
        await worker.ready()
        return time.perf_counter() - begin

    async def stop(self) -> None:
        """Kill all workers."""
        await asyncio.gather(*(worker.close() for worker in self.workers))
        self.workers.clear()

    async def ready_s(self, pending: int) -> tuple[float, float]:
        """Return after how many seconds a worker is ready, without other workers, with so many more operations.

        Returns:
            First with their entries to fold, then from a checkpoint.
        """
        assert self.store is not None, "only a store has something after a start"
        async with opened(parsed(self.store.url)) as (log, _):
            texts = [
                encode(
                    SubmitOperation(
                        id=f"op{number}", keys=(f"key{number}",), timeout_us=HOUR_US, data=Raw(b'"some"')
                    )
                )
                for number in range(pending)
            ]
            for begin in range(0, pending, BATCH):
                await log.append(texts[begin : begin + BATCH])
            folded_s = await self._restart()
            await save(log)
            return folded_s, await self._restart()

    async def _restart(self) -> float:
        await self.stop()
        ready_s = await self.add()
        await self.stop()
        return ready_s


@contextmanager
def deployed(name: str) -> Iterator[Deployment]:
    """Start the store of a deployment, without workers.

    Raises:
        NotInstalled: It is not here.
    """
    if not DEPLOYMENTS[name]:
        yield Deployment(name, None, ())
        return
    kind, *flags = DEPLOYMENTS[name]
    with store_named(kind) as store:
        yield Deployment(name, store, ("--store", store.url, *flags))

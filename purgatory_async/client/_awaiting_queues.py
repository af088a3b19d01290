"""The async verbs for queues and leases."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol

from purgatory_async.client._backend import backend_of, pages
from purgatory_async.client._bodies import lease_id
from purgatory_async.client._model import Lease, Loan, Queue, QueuedItem
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class QueueCalls(Protocol):
    """Methods of `AsyncVerbs` for queues."""

    async def put(self, queue: str, item: object, *, delay: Duration | None = None) -> bool:
        """Put an item, any JSON, into a queue. See `Client.put`."""
        return await backend_of(self).put(queue, item, delay)

    async def put_batch(self, queue: str, items: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Put items in order and in one step, all or none. See `Client.put_batch`."""
        return await backend_of(self).put_batch(queue, items)

    async def take(
        self, queue: str, *, lease: Duration | None = None, timeout: Duration | None = 0.0
    ) -> Lease | None:
        """Lease an item. See `Client.take`."""
        return await backend_of(self).take(queue, lease, timeout)

    async def take_batch(
        self, queue: str, most: int, *, lease: Duration | None = None, timeout: Duration | None = 0.0
    ) -> list[Lease]:
        """Lease up to ``most`` items, 1 to 100. See `Client.take_batch`."""
        return await backend_of(self).take_batch(queue, most, lease, timeout)

    async def acknowledge(self, lease: Lease | str) -> None:
        """Acknowledge a leased item as done. See `Client.acknowledge`."""
        await backend_of(self).end_lease(lease_id(lease), "ack")

    async def give_back(self, lease: Lease | str, *, delay: Duration | None = None) -> None:
        """Return a leased item to its place, hidden there for ``delay`` seconds. See `Client.give_back`."""
        await backend_of(self).end_lease(lease_id(lease), "return", delay)

    async def acknowledge_batch(self, leases: Iterable[Lease | str]) -> list[str]:
        """Acknowledge 1 to 100 items, each for itself. See `Client.acknowledge_batch`."""
        return await backend_of(self).end_leases([lease_id(each) for each in leases], "ack")

    async def give_back_batch(self, leases: Iterable[Lease | str]) -> list[str]:
        """Return 1 to 100 items, each for itself. See `Client.give_back_batch`."""
        return await backend_of(self).end_leases([lease_id(each) for each in leases], "return")

    async def extend(self, lease: Lease | str, seconds: Duration | None = None) -> float:
        """Count a lease again from now on. See `Client.extend`."""
        return await backend_of(self).extend(lease_id(lease), seconds)

    def leases(self, queue: str | None = None) -> AsyncIterator[Loan]:
        """List the leased items, the first to end first, page by page. See `Client.leases`."""
        return pages(lambda cursor: backend_of(self).leases(queue, cursor))

    def queues(self, prefix: str | None = None) -> AsyncIterator[Queue]:
        """List the queues by name, page by page. See `Client.queues`."""
        return pages(lambda cursor: backend_of(self).queues(prefix, cursor))

    async def queue(self, name: str) -> Queue:
        """Read a queue. See `Client.queue`."""
        return await backend_of(self).queue(name)

    def items(self, queue: str, *, delayed: bool = False) -> AsyncIterator[QueuedItem]:
        """Peek at a queue's items in the order in which they will be taken, page by page. See `Client.items`."""
        return pages(lambda cursor: backend_of(self).items(queue, delayed, cursor))

    async def set_queue(
        self,
        name: str,
        *,
        lease: Duration = UNSET,
        max_attempts: int | None = UNSET,
        max_items: int | None = UNSET,
        max_bytes: int | None = UNSET,
    ) -> Queue:
        """Set a queue, in full. See `Client.set_queue`."""
        settings = {
            "lease": lease,
            "max_attempts": max_attempts,
            "max_items": max_items,
            "max_bytes": max_bytes,
        }
        return await backend_of(self).set_queue(name, settings)

    async def forget_queue(self, name: str) -> None:
        """Forget the settings of a queue. See `Client.forget_queue`."""
        await backend_of(self).forget_queue(name)

    async def purge(self, queue: str) -> int:
        """Drop all items of a queue but the leased ones. See `Client.purge`."""
        return await backend_of(self).purge(queue)

    async def redrive(self, queue: str, most: int | None = None) -> int:
        """Put dead items of a queue behind those that wait, the oldest first. See `Client.redrive`."""
        return await backend_of(self).redrive(queue, most)

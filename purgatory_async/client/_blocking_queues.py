"""The methods of the blocking client for queues and leases."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from purgatory_async.client._bodies import lease_id
from purgatory_async.client._calls import Calls
from purgatory_async.client._model import Lease, Loan, Queue, QueuedItem
from purgatory_async.client.values import UNSET
from purgatory_async.durations import Duration


class QueueCalls(Calls):
    """Methods of `Client` for queues."""

    def put(self, queue: str, item: object, *, delay: Duration | None = None) -> bool:
        """Put an item, any JSON, into a queue.

        Args:
            queue: The queue.
            item: The item.
            delay: Time until it can be taken; None for at once.

        Returns:
            Whether a taker has it already.

        Raises:
            RequestRefused: The service refused the request.
            ServiceUnreachable: No answer came; the service may still have got the item.
        """
        return self._run(self._verbs.put(queue, item, delay))

    def put_batch(self, queue: str, items: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Put items in order and in one step, all or none; however often it is sent, it happens once.

        Args:
            queue: The queue.
            items: 1 to 100, each ``{"item": 1}`` with, as in `put`, ``delay``.

        Returns:
            Whether a taker has each already.

        Raises:
            RequestRefused: The service refused the batch; ``document["errors"]`` has what is wrong with which.
            ServiceUnreachable: No answer came; the service may still have got the batch.
        """
        return self._run(self._verbs.put_batch(queue, items))

    def take(
        self, queue: str, *, lease: Duration | None = None, timeout: Duration | None = 0.0
    ) -> Lease | None:
        """Lease an item; however often it is sent, it leases once.

        A lost answer is asked for again, and loses no lease. Services and stores of level 1 know no keys of takes:
        there the item comes back when its lease ends.

        Args:
            queue: The queue to take from.
            lease: Time until an unacknowledged item goes back; None for as long as the queue says.
            timeout: The longest wait for an item, overrun as in `follow`; None for no limit.

        Returns:
            The lease; None if no item came in time.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.take(queue, lease, timeout))

    def take_batch(
        self, queue: str, most: int, *, lease: Duration | None = None, timeout: Duration | None = 0.0
    ) -> list[Lease]:
        """Lease up to ``most`` items, 1 to 100: what is there, at least one; otherwise as `take`.

        Returns:
            The leases, the oldest item first; none if no item came in time.
        """
        return self._run(self._verbs.take_batch(queue, most, lease, timeout))

    def acknowledge(self, lease: Lease | str) -> None:
        """Acknowledge a leased item as done; raises as `submit`."""
        self._run(self._verbs.end_lease(lease_id(lease), "ack"))

    def give_back(self, lease: Lease | str, *, delay: Duration | None = None) -> None:
        """Return a leased item to its place, hidden there for ``delay``; raises as `submit`."""
        self._run(self._verbs.end_lease(lease_id(lease), "return", delay))

    def acknowledge_batch(self, leases: Iterable[Lease | str]) -> list[str]:
        """Acknowledge 1 to 100 items, each for itself; return the ids of leases that had ended. Raises as `submit`."""
        return self._run(self._verbs.end_leases([lease_id(each) for each in leases], "ack"))

    def give_back_batch(self, leases: Iterable[Lease | str]) -> list[str]:
        """Return 1 to 100 items, each for itself; return the ids of leases that had ended. Raises as `submit`."""
        return self._run(self._verbs.end_leases([lease_id(each) for each in leases], "return"))

    def extend(self, lease: Lease | str, seconds: Duration | None = None) -> float:
        """Count a lease again from now on.

        Args:
            lease: The lease.
            seconds: How long it lasts; None for as long as at first.

        Returns:
            The seconds until it ends; the service cuts long ones.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._run(self._verbs.extend(lease_id(lease), seconds))

    def leases(self, queue: str | None = None) -> Iterator[Loan]:
        """List the leased items, the first to end first, page by page; of one queue or of all. Raises as `submit`."""
        return self._pages(lambda cursor: self._verbs.leases(queue, cursor))

    def queues(self, prefix: str | None = None) -> Iterator[Queue]:
        """List the queues by name, page by page; all, or those with a prefix. Raises as `submit`."""
        return self._pages(lambda cursor: self._verbs.queues(prefix, cursor))

    def queue(self, name: str) -> Queue:
        """Read a queue; raises as `submit`, also if there is nothing to know of it."""
        return self._run(self._verbs.queue(name))

    def items(self, queue: str, *, delayed: bool = False) -> Iterator[QueuedItem]:
        """Peek at a queue's items in the order in which they will be taken, page by page.

        Args:
            queue: The queue.
            delayed: Whether to show those that cannot be taken yet, the first due first.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        return self._pages(lambda cursor: self._verbs.items(queue, delayed, cursor))

    def set_queue(
        self,
        name: str,
        *,
        lease: Duration = UNSET,
        max_attempts: int | None = UNSET,
        max_items: int | None = UNSET,
        max_bytes: int | None = UNSET,
    ) -> Queue:
        """Set a queue, in full: what is not given is as for every queue; None is no limit.

        Args:
            name: The queue.
            lease: How long a lease lasts if its taker does not say.
            max_attempts: How often an item is leased before it goes to ``NAME.dead`` instead of coming back.
            max_items: The most items, leased ones included.
            max_bytes: The most bytes of items and leases, each its JSON and 128.

        Raises:
            RequestRefused, ServiceUnreachable: As `submit`.
        """
        settings = {
            "lease": lease,
            "max_attempts": max_attempts,
            "max_items": max_items,
            "max_bytes": max_bytes,
        }
        return self._run(self._verbs.set_queue(name, settings))

    def forget_queue(self, name: str) -> None:
        """Forget the settings of a queue; its items stay. Raises as `submit`."""
        self._run(self._verbs.forget_queue(name))

    def purge(self, queue: str) -> int:
        """Drop all items of a queue but the leased ones; return how many. Raises as `submit`."""
        return self._run(self._verbs.purge(queue))

    def redrive(self, queue: str, most: int | None = None) -> int:
        """Put dead items of a queue behind those that wait, the oldest first; return how many. Raises as `submit`.

        Args:
            queue: The queue that they came from, without ``.dead``.
            most: The most of them; None for all.
        """
        return self._run(self._verbs.redrive(queue, most))

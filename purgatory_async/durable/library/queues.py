"""The verbs of queues and leases, carried out in this process."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UnsetType

from purgatory_async.client import _documents as documents
from purgatory_async.client._bodies import longest_wait, or_unset, timed
from purgatory_async.client._model import Lease, Loan, Queue, QueuedItem
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.documents.problems import Kind, Problem
from purgatory_async.durable.documents.queue_messages import DeliveredItems, ItemList, LeaseList, QueueList
from purgatory_async.durable.fold.entries import EndLease, SetQueue
from purgatory_async.durable.fold.shared import microseconds
from purgatory_async.durable.later import at_last
from purgatory_async.durable.library.asking import Asking, plain, verb, written
from purgatory_async.durable.verbs import leases as of_leases
from purgatory_async.durable.verbs import queues as of_queues
from purgatory_async.durable.verbs.pages import MAX_LIMIT
from purgatory_async.durations import Duration

T = TypeVar("T")

_LONGEST: Final = 30.0 * 86_400
"""Seconds that a taker stands in line before it goes to the end of it."""


class Queues(Asking):
    """The verbs of queues; see `Backend`."""

    @verb
    async def put(self, queue: str, item: object, delay: Duration | None) -> bool:
        """Put an item."""
        [delivered] = await self._put(queue, timed(item=item, delay=delay))
        return delivered

    @verb
    async def put_batch(self, queue: str, items: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Put items in one step."""
        return await self._put(queue, {"items": [timed(**item) for item in items]})

    async def _put(self, queue: str, body: Mapping[str, Any]) -> list[bool]:
        entry = of_queues.put_in(written(body), checked_key(queue), self._caller)
        view = of_queues.delivered(await at_last(self._keeper.put(entry, self._caller)))
        return [each.delivered for each in (view.items if isinstance(view, DeliveredItems) else [view])]

    @verb
    async def take(self, queue: str, lease: Duration | None, timeout: Duration | None) -> Lease | None:
        """Lease an item, once there is one, or the timeout expires."""
        taken = await self._take(queue, timed(lease=or_unset(lease)), timeout)
        return taken[0] if taken else None

    @verb
    async def take_batch(
        self, queue: str, most: int, lease: Duration | None, timeout: Duration | None
    ) -> list[Lease]:
        """Lease items, once there are some, or the timeout expires."""
        return await self._take(queue, timed(max=most, lease=or_unset(lease)), timeout)

    async def _take(self, queue: str, body: Mapping[str, Any], timeout: Duration | None) -> list[Lease]:
        order, _ = of_queues.take_in(written(body), checked_key(queue))
        order.owner = self._caller.grant.owner
        timer = self._keeper.timer
        until = timer.time() + longest_wait(timeout)
        while True:
            wait = max(until - timer.time(), 0)
            asked = msgspec.structs.replace(order, wait_us=microseconds(min(wait, _LONGEST)))
            try:
                taken = await self._waits.takers.take(self._caller, asked)
            except Problem as problem:
                if problem.kind is not Kind.GAP:
                    raise
                # The line was lost with its history: stand in it again, once the store is there.
                await self._waits.patiently(until)
                continue
            # From here on nothing is awaited: a caller that is cancelled has not got them.
            if taken.leases or wait <= _LONGEST:
                views = of_leases.leased(taken, self._keeper.state)
                return [documents.lease(plain(each)) for each in views]

    @verb
    async def end_lease(self, lease: str, how: str, delay: Duration | None = None) -> None:
        """Acknowledge a lease (``ack``) or give it back (``return``)."""
        entry = EndLease(lease_id=lease)
        if how == "return":
            entry = of_leases.return_in(written(timed(delay=delay)), lease)
        await at_last(of_leases.change(self._keeper, entry, self._caller))

    @verb
    async def end_leases(self, leases: list[str], how: str) -> list[str]:
        """End leases, each for itself; return those that had ended before."""
        given = of_leases.leases_in(written({"leases": leases}))
        ended = await of_leases.end_each(self._keeper, given, self._caller, back=how == "return")
        return documents.missed(plain(ended), leases)

    @verb
    async def extend(self, lease: str, seconds: Duration | None) -> float:
        """Count a lease again from now on."""
        entry = of_leases.extension_in(written(timed(lease=or_unset(seconds))), lease)
        return (await at_last(of_leases.extend(self._keeper, entry, self._caller))).expires_in

    @verb
    async def leases(self, queue: str | None, cursor: str | None) -> tuple[list[Loan], str | None]:
        """List one page of leases."""
        page = await of_leases.lease_list(self._keeper, queue, cursor, MAX_LIMIT, self._caller)
        return _listed(page, page.leases, documents.listed_lease)

    @verb
    async def queues(self, prefix: str | None, cursor: str | None) -> tuple[list[Queue], str | None]:
        """List one page of queues."""
        page = await of_queues.queue_list(self._keeper, prefix, cursor, MAX_LIMIT, self._caller)
        return _listed(page, page.queues, documents.queue)

    @verb
    async def queue(self, name: str) -> Queue:
        """Show a queue."""
        return documents.queue(plain(await of_queues.queue_view(self._keeper, checked_key(name))))

    @verb
    async def items(
        self, queue: str, delayed: bool, cursor: str | None
    ) -> tuple[list[QueuedItem], str | None]:
        """Peek at one page of items."""
        page = await of_queues.item_list(self._keeper, checked_key(queue), cursor, MAX_LIMIT, delayed=delayed)
        return _listed(page, page.items, documents.queued_item)

    @verb
    async def set_queue(self, name: str, settings: Mapping[str, object]) -> Queue:
        """Set a queue."""
        entry = of_queues.settings_in(written(timed(**settings)), checked_key(name))
        return documents.queue(plain(await at_last(of_queues.set_queue(self._keeper, entry, self._caller))))

    @verb
    async def forget_queue(self, name: str) -> None:
        """Forget a queue's settings."""
        await at_last(self._keeper.state.propose(SetQueue(queue=checked_key(name)), self._caller))

    @verb
    async def purge(self, queue: str) -> int:
        """Drop a queue's items."""
        return await at_last(
            of_queues.move(self._keeper, of_queues.purge_in(b"", checked_key(queue)), self._caller)
        )

    @verb
    async def redrive(self, queue: str, most: int | None) -> int:
        """Put dead items back."""
        asked = of_queues.redrive_in(written({} if most is None else {"max": most}))
        return await of_queues.redrive(self._keeper, checked_key(queue), asked, self._caller)


def _listed(
    page: ItemList | LeaseList | QueueList, shown: Iterable[msgspec.Struct], read: Callable[[Any], T]
) -> tuple[list[T], str | None]:
    """Return the elements of a page as models, and the cursor of the next one."""
    following = None if isinstance(page.next, UnsetType) else page.next
    return [read(plain(each)) for each in shown], following

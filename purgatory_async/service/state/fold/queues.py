"""The queues of the fold: items, takers in line, and items on loan.

An item keeps its place for ever: the position of its put. So an item that comes back is in front of those that were
never lent. A taker and a loan are delayed operations of the library: a taker waits on its queue until an item comes or
its wait ends, a loan until it is acknowledged or expires.
"""

from collections import OrderedDict
from heapq import heappop, heappush
from typing import Final, Literal, final

from msgspec import Raw

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.service.state.fold.entries import WantItem
from purgatory_async.service.state.fold.shared import FOREVER, Effect, Shared

Item = tuple[int, Raw]
"""The position of its put, and its JSON text."""


@final
class Taker(DelayedOperation[Item]):
    """A request for an item, in line. Ends with an item, without one, or because it leaves.

    Attributes:
        order: What it asked for, and its writer.
        position: Of that entry.
        until_us: The log time at which its wait ends.
    """

    __slots__ = ("_queues", "order", "position", "until_us")

    def __init__(
        self, queues: "Queues", order: WantItem, position: int, until_us: int, timeout: float
    ) -> None:
        super().__init__(timeout)
        self._queues = queues
        self.order = order
        self.position = position
        self.until_us = until_us

    def try_complete(self) -> bool:
        """Take the oldest item, if there is one."""
        item = self._queues.pick(self.order.queue)
        return item is not None and self.force_complete(item)

    def on_complete(self) -> None:
        """Begin the loan of the item."""
        self._queues.leave(self)
        if self.result is not None:
            self._queues.lend(self.order, self.result)

    def on_expiration(self) -> None:
        """Say that the wait has ended."""
        self._queues.waited(self)


@final
class Lease(DelayedOperation[None]):
    """An item on loan.

    Attributes:
        id: That of the taker.
        queue: The item's.
        item: Its number and JSON text.
        position: Of the entry in whose step the loan began.
        until_us: The log time at which it ends.
    """

    __slots__ = ("_queues", "id", "item", "position", "queue", "until_us")

    def __init__(
        self,
        queues: "Queues",
        lease_id: str,
        queue: str,
        item: Item,
        *,
        position: int,
        until_us: int,
        timeout: float,
    ) -> None:
        super().__init__(timeout)
        self._queues = queues
        self.id = lease_id
        self.queue = queue
        self.item = item
        self.position = position
        self.until_us = until_us

    def on_expiration(self) -> None:
        """Put the item back."""
        self._queues.ended(self, back=True)


class ItemLent(Effect, frozen=True, eq=False):
    """A taker has an item on loan."""

    lease: Lease

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The loan and the item."""
        return (self.lease.id, self.lease.item[0])


class TakerLeft(Effect, frozen=True, eq=False):
    """A taker has left the line without an item: its wait has ended, or its writer was silent for too long."""

    lease_id: str
    why: Literal["waited", "silent"]

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The taker and why."""
        return (self.lease_id, self.why)


class Queues:
    """All queues, by name.

    Attributes:
        items: The heap of each queue that is not empty.
        kept: How many items they have together.
        takers: Those in line, by the id of their loan to be.
        takers_of: The same by writer, in the order in which they came.
        leases: The loans, in the order in which they began.
        ended_leases: When each ended loan ended, in this order.
    """

    def __init__(self, shared: Shared) -> None:
        self.items: Final[dict[str, list[Item]]] = {}
        self.kept = 0
        self.takers: Final[dict[str, Taker]] = {}
        self.takers_of: Final[dict[str, dict[str, Taker]]] = {}
        self.leases: Final[dict[str, Lease]] = {}
        self.ended_leases: Final[OrderedDict[str, int]] = OrderedDict()
        self.line: Final = Purgatory("takers", timer=shared.timer)
        self.loans: Final = Purgatory("leases", timer=shared.timer)
        self._shared: Final = shared

    def put(self, queue: str, item: Raw) -> bool:
        """Give an item to the oldest taker, or keep it; return whether it was given. O(log items of the queue)."""
        self._shared.totals.items += 1
        return self._keep(queue, (self._shared.position, item))

    def want(self, order: WantItem) -> None:
        """Take the oldest item on loan, or stand in line. O(log items of the queue)."""
        shared = self._shared
        until_us = shared.clock.now_us + order.wait
        timeout = shared.seconds_until(until_us)
        self.stand(Taker(self, order, shared.position, until_us, timeout))

    def stand(self, taker: Taker) -> None:
        """Put a taker at the end of its line, or give it an item."""
        order = taker.order
        self.takers[order.lease_id] = taker
        if order.writer is not None:
            self.takers_of.setdefault(order.writer, {})[order.lease_id] = taker
        self.line.try_complete_else_watch(taker, (order.queue,))

    def knows(self, lease_id: str) -> bool:
        """Whether a taker or a loan has this id, or had it lately. O(1)."""
        return lease_id in self.takers or lease_id in self.leases or lease_id in self.ended_leases

    def gone(self, lease_id: str) -> None:
        """Remove a taker, or put its item back in front of the queue; does nothing for one that has ended."""
        taker, lease = self.takers.get(lease_id), self.leases.get(lease_id)
        if taker is not None:
            taker.cancel()
            self.leave(taker)
        elif lease is not None:
            lease.cancel()
            self.ended(lease, back=True)

    def silent(self, writer: str) -> None:
        """Remove all takers of a writer from their lines, the oldest first. O(takers)."""
        for taker in list(self.takers_of.get(writer, {}).values()):
            taker.cancel()
            self.leave(taker)
            self._shared.effects.append(TakerLeft(taker.order.lease_id, "silent"))

    def end(self, lease: Lease, *, back: bool) -> None:
        """End a loan for its taker. O(log items of the queue)."""
        lease.cancel()
        if not back:
            self._shared.totals.acknowledged += 1
        self.ended(lease, back=back)

    def forget(self, whole_us: int) -> int:
        """Forget the ended loans that were kept long enough; as `Operations.forget`. O(forgotten)."""
        retention = self._shared.limits.retention
        while self.ended_leases:
            lease_id, at_us = next(iter(self.ended_leases.items()))
            if at_us + retention > whole_us:
                return at_us + retention
            del self.ended_leases[lease_id]
        return FOREVER

    # For takers and loans.

    def pick(self, queue: str) -> Item | None:
        """Take out the oldest item of a queue."""
        items = self.items.get(queue)
        if items is None:
            return None
        item = heappop(items)
        if not items:
            del self.items[queue]
        self.kept -= 1
        return item

    def leave(self, taker: Taker) -> None:
        """Forget a taker that is no longer in line."""
        lease_id, writer = taker.order.lease_id, taker.order.writer
        del self.takers[lease_id]
        if writer is not None:
            takers = self.takers_of[writer]
            del takers[lease_id]
            if not takers:
                del self.takers_of[writer]

    def lend(self, order: WantItem, item: Item) -> None:
        """Begin a loan."""
        shared = self._shared
        until_us = shared.clock.now_us + min(order.lease, shared.limits.max_lease)
        lease = Lease(
            self,
            order.lease_id,
            order.queue,
            item,
            position=shared.position,
            until_us=until_us,
            timeout=shared.seconds_until(until_us),
        )
        shared.totals.loans += 1
        shared.effects.append(ItemLent(lease))
        self.borrow(lease)

    def borrow(self, lease: Lease) -> None:
        """Make a loan known, and let it run."""
        self.leases[lease.id] = lease
        self.loans.try_complete_else_watch(lease, (lease.queue,))

    def waited(self, taker: Taker) -> None:
        """Say that a taker's wait has ended."""
        self._shared.effects.append(TakerLeft(taker.order.lease_id, "waited"))

    def ended(self, lease: Lease, *, back: bool) -> None:
        """Remember the id of a loan that has ended, and put its item back if asked."""
        del self.leases[lease.id]
        self.ended_leases[lease.id] = self._shared.clock.now_us
        if back:
            self._keep(lease.queue, lease.item)

    def _keep(self, queue: str, item: Item) -> bool:
        heappush(self.items.setdefault(queue, []), item)
        self.kept += 1
        return self.line.check_and_complete(queue, limit=1) > 0

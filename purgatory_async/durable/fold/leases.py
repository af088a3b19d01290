"""Takers and leases of the queues: delayed operations of the library, and the effects of their ends.

A taker waits on its queue until an item comes or its wait ends. A lease lasts until it is acknowledged or expires.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, final

from msgspec import UnsetType

from purgatory_async import DelayedOperation, Purgatory
from purgatory_async.durable.fold.entries import WantItem
from purgatory_async.durable.fold.items import Hidden, Item, Queue
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, text_of_id
from purgatory_async.durable.fold.remembered import Remembered
from purgatory_async.durable.fold.shared import Effect, Shared
from purgatory_async.durable.fold.takes import Take, Takes

MAX_TAKEN: Final = 100
"""The most items that one taker gets."""


class Keeper(Protocol):
    """Keeps the items, as `queues.Queues`."""

    @property
    def takers(self) -> "Line":
        """Those that wait for items."""
        ...

    @property
    def leases(self) -> "Leases":
        """The items that were taken."""
        ...

    def queue(self, name: str) -> Queue:
        """Return a queue, which may be new."""
        ...

    def forget_idle(self, queue: Queue) -> None:
        """Forget a queue if there is nothing to know of it."""

    def pick(self, order: WantItem) -> list[Item]:
        """Take out the oldest items of a queue, as many as a taker may have."""
        ...

    def ended(self, lease: "Lease", *, back: bool) -> None:
        """End a lease."""


@final
class Taker(DelayedOperation[list[Item]]):
    """A request for items, in line. Ends with some, without any, or because it leaves.

    Attributes:
        order: What it asked for, and its writer.
        lease_us: How long its leases are to last.
        position: The position of that entry.
        until_us: The log time at which its wait ends.
    """

    __slots__ = ("_keeper", "lease_us", "order", "position", "until_us")

    def __init__(
        self,
        keeper: Keeper,
        order: WantItem,
        lease_us: int,
        *,
        position: int,
        until_us: int,
        timeout: float,
    ) -> None:
        super().__init__(timeout)
        self._keeper = keeper
        self.order = order
        self.lease_us = lease_us
        self.position = position
        self.until_us = until_us

    def try_complete(self) -> bool:
        """Take the oldest items, if there is one."""
        items = self._keeper.pick(self.order)
        return bool(items) and self.force_complete(items)

    def on_complete(self) -> None:
        """Begin the leases of the items."""
        if self.result is not None:
            self._keeper.leases.begin(self.order, self.lease_us, self.result)
        self._keeper.takers.leave(self)

    def on_expiration(self) -> None:
        """Say that the wait has ended."""
        self._keeper.takers.waited(self)


@final
class Lease(DelayedOperation[None]):
    """A leased item.

    Attributes:
        id: The taker's id for the first item; for a further item followed by a dot and a number.
        taker: The id of its taker.
        queue: The name of the item's queue.
        item: The item as it was before.
        lease_us: How long the lease was to last.
        position: The position of the entry in whose step the lease began, or was extended.
        until_us: The log time at which it ends.
        owner: Who took it; None without tokens.
        take: The take of its taker's Idempotency-Key; None without one.
    """

    __slots__ = (
        *("_keeper", "id", "item", "lease_us", "owner"),
        *("position", "queue", "take", "taker", "until_us"),
    )

    def __init__(
        self,
        keeper: Keeper,
        lease_id: str,
        taker: str,
        queue: str,
        item: Item,
        *,
        lease_us: int,
        position: int,
        until_us: int,
        timeout: float,
        owner: str | None,
        take: Take | None = None,
    ) -> None:
        super().__init__(timeout)
        self._keeper = keeper
        self.owner = owner
        self.take = take
        self.id = lease_id
        self.taker = taker
        self.queue = queue
        self.item = item
        self.lease_us = lease_us
        self.position = position
        self.until_us = until_us

    @property
    def attempts(self) -> int:
        """How often the item was leased, with this lease."""
        return self.item.attempts + 1

    def on_expiration(self) -> None:
        """Put the item back."""
        self._keeper.ended(self, back=True)


class ItemLeased(Effect, frozen=True, eq=False):
    """A taker has leased an item."""

    lease: Lease

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The lease and the item."""
        return (self.lease.id, self.lease.item.number)


class LeasesShared(Effect, frozen=True, eq=False):
    """A request has got the leases of another taker with its Idempotency-Key, and does not stand in line."""

    lease_id: str
    leases: tuple[Lease, ...]

    @property
    def fact(self) -> tuple[str | int, ...]:
        """Who, and the leases."""
        return (self.lease_id, *(lease.id for lease in self.leases))


class LeaseExtended(Effect, frozen=True, eq=False):
    """A lease ends at another time."""

    lease: Lease

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The lease and its end."""
        return (self.lease.id, self.lease.until_us)


class ItemHidden(Effect, frozen=True, eq=False):
    """An item is hidden until it is due."""

    hidden: Hidden

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The item and when."""
        return (self.hidden.item.number, self.hidden.until_us)


class TakerLeft(Effect, frozen=True, eq=False):
    """A taker has left the line without an item: its wait has ended, or its writer was silent for too long."""

    lease_id: str
    why: Literal["waited", "silent"]

    @property
    def fact(self) -> tuple[str | int, ...]:
        """The taker and why."""
        return (self.lease_id, self.why)


class Line(dict[str, Taker]):
    """The takers in line, by the id that their lease will have.

    Args:
        shared: The step.
        keeper: Has the queues.

    Attributes:
        by_writer: The same by writer, in the order in which they came.
        purgatory: In which they wait, each on its queue.
    """

    def __init__(self, shared: Shared, keeper: Keeper) -> None:
        super().__init__()
        self.by_writer: Final[dict[str, dict[str, Taker]]] = {}
        self.purgatory: Final = Purgatory("takers", timer=shared.timer)
        self._shared: Final = shared
        self._keeper: Final = keeper

    def want(self, order: WantItem) -> None:
        """Lease the oldest items, or stand in line. O(items log items of the queue)."""
        shared, asked_us, queue = self._shared, order.lease_us, self._keeper.queue(order.queue)
        lease_us = queue.lease_us if isinstance(asked_us, UnsetType) else asked_us
        if queue.ready and not queue.takers:
            self._keeper.leases.begin(order, lease_us, self._keeper.pick(order))
            return
        until_us = shared.clock.now_us + order.wait_us
        timeout = shared.seconds_until(until_us)
        self.stand(
            Taker(self._keeper, order, lease_us, position=shared.position, until_us=until_us, timeout=timeout)
        )

    def stand(self, taker: Taker) -> None:
        """Put a taker at the end of its line, or give it items."""
        order = taker.order
        self._keeper.queue(order.queue).takers += 1
        self[order.lease_id] = taker
        self._keeper.leases.takes.stand(order)
        if order.writer is not None:
            self.by_writer.setdefault(order.writer, {})[order.lease_id] = taker
        self.purgatory.try_complete_else_watch(taker, (order.queue,))

    def serve(self, name: str) -> bool:
        """Let the oldest taker of a queue have its items; return whether there was one."""
        return self.purgatory.check_and_complete(name, limit=1) > 0

    def silent(self, writer: str) -> None:
        """Remove all takers of a writer from their lines, the oldest first. O(takers)."""
        for taker in list(self.by_writer.get(writer, {}).values()):
            taker.cancel()
            self.leave(taker)
            self._shared.effects.append(TakerLeft(taker.order.lease_id, "silent"))

    def share(self, take: Take) -> None:
        """Give the leases of a take to all its takers in line. O(takers)."""
        for lease_id in list(take.in_line):
            taker = self[lease_id]
            if lease_id != take.taker and taker.cancel():
                self.leave(taker)
                self._keeper.leases.share(take, lease_id)

    def leave(self, taker: Taker) -> None:
        """Forget a taker that is no longer in line."""
        lease_id, writer = taker.order.lease_id, taker.order.writer
        del self[lease_id]
        self._keeper.leases.takes.leave(taker.order)
        queue = self._keeper.queue(taker.order.queue)
        queue.takers -= 1
        self._keeper.forget_idle(queue)
        if writer is not None:
            takers = self.by_writer[writer]
            del takers[lease_id]
            if not takers:
                del self.by_writer[writer]

    def waited(self, taker: Taker) -> None:
        """Say that a taker's wait has ended."""
        self._shared.effects.append(TakerLeft(taker.order.lease_id, "waited"))


class Leases(dict[str, Lease]):
    """The leases by id, in the order in which they began or were extended.

    Args:
        shared: The step and the limits.
        keeper: Has the queues.

    Attributes:
        ended: The ids of those that have ended, with their owners.
        takes: The takers and leases that have an Idempotency-Key.
        purgatory: In which they run out.
    """

    def __init__(self, shared: Shared, keeper: Keeper) -> None:
        super().__init__()
        self.ended: Final[Remembered[str, str | None]] = Remembered(shared, text_of_id)
        self.takes: Final = Takes(shared.kept)
        self.purgatory: Final = Purgatory("leases", timer=shared.timer)
        self._shared: Final = shared
        self._keeper: Final = keeper

    def of(self, taker: str) -> Iterator[Lease]:
        """Iterate over the leases of a taker. O(most items of one)."""
        for lease_id in lease_ids(taker):
            lease = self.get(lease_id)
            if lease is not None and lease.taker == taker:
                yield lease

    def unshared(self, taker: str) -> list[Lease]:
        """Return the leases of a taker; none if another request has been answered with them. O(most items of one)."""
        return [lease for lease in self.of(taker) if lease.take is None or not lease.take.shared]

    def begin(self, order: WantItem, lease_us: int, items: Sequence[Item]) -> None:
        """Begin the leases of the items that a taker gets."""
        shared, take = self._shared, self.takes.begin(order)
        lease_us = min(lease_us, shared.limits.max_lease_us)
        until_us = shared.clock.now_us + lease_us
        if take is not None:
            take.leases = len(items)
        for lease_id, item in zip(lease_ids(order.lease_id), items, strict=False):
            lease = Lease(
                self._keeper,
                lease_id,
                order.lease_id,
                order.queue,
                item,
                lease_us=lease_us,
                position=shared.position,
                until_us=until_us,
                timeout=shared.seconds_until(until_us),
                owner=order.owner,
                take=take,
            )
            shared.totals.leases += 1
            shared.effects.append(ItemLeased(lease))
            self.add(lease)
        if take is not None:
            self._keeper.takers.share(take)

    def share(self, take: Take, lease_id: str) -> None:
        """Give the leases of a take to a further request. O(most items of a taker)."""
        take.shared = True
        self._shared.effects.append(LeasesShared(lease_id, tuple(self.of(take.taker))))

    def restore(self, lease: Lease) -> None:
        """Register a lease that was saved, whose item its queue has yet to count."""
        if lease.take is not None:
            lease.take.leases += 1
        self._keeper.queue(lease.queue).weigh(lease.item.size, lease.item.owner)
        self.add(lease)

    def add(self, lease: Lease) -> None:
        """Register a lease and start its deadline; its queue counts the item already."""
        queue = self._keeper.queue(lease.queue)
        queue.leased += 1
        queue.weigh(PIECE_BYTES, lease.owner)
        self[lease.id] = lease
        self.purgatory.try_complete_else_watch(lease, (lease.queue,))

    def extend(self, lease: Lease, lease_us: int) -> int:
        """Let a lease count again from now on; return how long. O(1)."""
        shared = self._shared
        lease.cancel()
        self._drop(lease)
        left_us = min(lease_us, shared.limits.max_lease_us)
        until_us = shared.clock.now_us + left_us
        extended = Lease(
            self._keeper,
            lease.id,
            lease.taker,
            lease.queue,
            lease.item,
            lease_us=lease.lease_us,
            position=shared.position,
            until_us=until_us,
            timeout=shared.seconds_until(until_us),
            owner=lease.owner,
            take=lease.take,
        )
        shared.effects.append(LeaseExtended(extended))
        self.add(extended)
        return left_us

    def end(self, lease: Lease) -> None:
        """Forget a lease but for its id, which is remembered as ended. O(1)."""
        queue, item = self._drop(lease), lease.item
        queue.weigh(-item.size, item.owner)
        if lease.take is not None:
            self.takes.end_lease(lease.take)
        self.ended.add(lease.id, self._shared.clock.now_us, lease.owner)
        self._keeper.forget_idle(queue)

    def _drop(self, lease: Lease) -> Queue:
        queue = self._keeper.queue(lease.queue)
        queue.leased -= 1
        queue.weigh(-PIECE_BYTES, lease.owner)
        del self[lease.id]
        return queue


def lease_ids(taker: str) -> Iterator[str]:
    """Iterate over the ids of a taker's leases: its own, and for each further item one made of it."""
    yield taker
    for nth in range(1, MAX_TAKEN):
        yield f"{taker}.{nth}"

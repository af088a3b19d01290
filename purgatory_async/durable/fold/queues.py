"""The queues of the fold: items, takers in line, and leased items.

An item keeps its place in the order for ever: the time at which it was first due. So an item that comes back is in
front of those that were never leased.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import UnsetType

from purgatory_async import Purgatory
from purgatory_async.durable.fold.entries import NewItem, PutItem, PutItems, SetQueue, WantItem
from purgatory_async.durable.fold.items import DEAD, Hidden, Item, Queue
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, text_bytes, text_of_id
from purgatory_async.durable.fold.leases import (
    ItemHidden,
    ItemLeased,
    Lease,
    LeaseExtended,
    Taker,
    TakerLeft,
    lease_ids,
)
from purgatory_async.durable.fold.remembered import Remembered
from purgatory_async.durable.fold.results import OVERLOADED, Refused
from purgatory_async.durable.fold.shared import AT_ONCE, Shared, Work


class Queues:
    """All queues, by name.

    Attributes:
        by_name: The queues that are not idle.
        kept: How many items they have together, hidden ones included.
        hidden_ones: How many of them are hidden.
        dead: How many items went to the dead ones since the log began.
        takers: The takers in line, by the id that their lease will have.
        takers_of: The same by writer, in the order in which they came.
        leases: The leases, in the order in which they began or were extended.
        ended_leases: The ids of leases that have ended, with their owners.
    """

    def __init__(self, shared: Shared) -> None:
        self.by_name: Final[dict[str, Queue]] = {}
        self.kept = 0
        self.hidden_ones = 0
        self.dead = 0
        self.takers: Final[dict[str, Taker]] = {}
        self.takers_of: Final[dict[str, dict[str, Taker]]] = {}
        self.leases: Final[dict[str, Lease]] = {}
        self.ended_leases: Final[Remembered[str, str | None]] = Remembered(shared, text_of_id)
        self.line: Final = Purgatory("takers", timer=shared.timer)
        self.leasing: Final = Purgatory("leases", timer=shared.timer)
        self.delays: Final = Purgatory("delays", timer=shared.timer)
        self._shared: Final = shared

    @property
    def ready(self) -> int:
        """How many items can be taken now."""
        return self.kept - self.hidden_ones

    def queue(self, name: str) -> Queue:
        """Return a queue, which may be new: then something must be put into it. O(1)."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Queue(name, self._shared.kept)
            self._shared.kept.pin(text_bytes(name))
        return found

    def refusal(self, entry: PutItem | PutItems, new: Sequence[NewItem]) -> Refused | None:
        """Return why a queue cannot take the items of an entry; None if it can. O(items)."""
        name = entry.queue
        shared = self._shared
        size = sum(len(each.item) + PIECE_BYTES for each in new)
        queue = self.by_name.get(name)
        if not (queue or Queue(name)).fits(len(new), size, shared.limits):
            return OVERLOADED
        return shared.refusal(entry, size if queue else size + text_bytes(name), size)

    def put(
        self, name: str, new: Sequence[NewItem], owner: str | None = None
    ) -> list[tuple[int | str, bool]]:
        """Give items to the oldest takers, or keep or hide them. O(items log items of the queue).

        Returns:
            The number of each, and whether it was given.
        """
        shared = self._shared
        now_us, position = shared.clock.now_us, shared.position
        shared.totals.items += len(new)
        queue = self.queue(name)
        awaited, ready = queue.takers > 0, 0
        later, numbers = list[Item](), list[int | str]()
        for nth, each in enumerate(new):
            number = f"{position}.{nth}" if nth else position
            item = Item(now_us + each.delay_us, position, nth, number, now_us, 0, each.item, owner)
            numbers.append(number)
            queue.weigh(item.size, owner)
            if each.delay_us:
                later.append(item)
            else:
                queue.keep(item)
                self.kept += 1
                ready += 1
        if ready:
            self.serve(queue)
        # A queue with takers had no item: those that were given are the first ones.
        given = ready - len(queue.ready) if awaited else 0
        # In the order of their times, as a checkpoint has them.
        for item in sorted(later):
            self._hide(name, item, item.due_us)
        found = list[tuple[int | str, bool]]()
        for number, each in zip(numbers, new, strict=True):
            found.append((number, not each.delay_us and given > 0))
            given -= not each.delay_us
        return found

    def want(self, order: WantItem) -> None:
        """Lease the oldest items, or stand in line. O(items log items of the queue)."""
        shared = self._shared
        until_us = shared.clock.now_us + order.wait_us
        lease_us = (
            self.queue(order.queue).lease_us if isinstance(order.lease_us, UnsetType) else order.lease_us
        )
        timeout = shared.seconds_until(until_us)
        self.stand(Taker(self, order, lease_us, position=shared.position, until_us=until_us, timeout=timeout))

    def stand(self, taker: Taker) -> None:
        """Put a taker at the end of its line, or give it items."""
        order = taker.order
        self.queue(order.queue).takers += 1
        self.takers[order.lease_id] = taker
        if order.writer is not None:
            self.takers_of.setdefault(order.writer, {})[order.lease_id] = taker
        self.line.try_complete_else_watch(taker, (order.queue,))

    def knows(self, lease_id: str) -> bool:
        """Whether a taker or a lease has this id, or had it lately. O(1)."""
        return lease_id in self.takers or lease_id in self.leases or lease_id in self.ended_leases

    def leases_of(self, taker: str) -> Iterator[Lease]:
        """Iterate over the leases of a taker. O(most items of one)."""
        for lease_id in lease_ids(taker):
            lease = self.leases.get(lease_id)
            if lease is not None and lease.taker == taker:
                yield lease

    def gone(self, lease_id: str) -> None:
        """Remove a taker, or put its items back as they were; does nothing for one that has ended."""
        taker = self.takers.get(lease_id)
        if taker is not None:
            taker.cancel()
            self.leave(taker)
            return
        for lease in list(self.leases_of(lease_id)):
            lease.cancel()
            self._end(lease)
            self._keep(lease.queue, lease.item)

    def silent(self, writer: str) -> None:
        """Remove all takers of a writer from their lines, the oldest first. O(takers)."""
        for taker in list(self.takers_of.get(writer, {}).values()):
            taker.cancel()
            self.leave(taker)
            self._shared.effects.append(TakerLeft(taker.order.lease_id, "silent"))

    def end(self, lease: Lease, *, back: bool, delay: int = 0) -> None:
        """End a lease for its taker. O(log items of the queue)."""
        lease.cancel()
        if not back:
            self._shared.totals.acknowledged += 1
        self.ended(lease, back=back, delay=delay)

    def extend(self, lease: Lease, lease_us: int) -> int:
        """Let a lease count again from now on; return how long. O(1)."""
        shared = self._shared
        lease.cancel()
        self._let_go(lease)
        left_us = min(lease_us, shared.limits.max_lease_us)
        until_us = shared.clock.now_us + left_us
        extended = Lease(
            self,
            lease.id,
            lease.taker,
            lease.queue,
            lease.item,
            lease_us=lease.lease_us,
            position=shared.position,
            until_us=until_us,
            timeout=shared.seconds_until(until_us),
            owner=lease.owner,
        )
        shared.effects.append(LeaseExtended(extended))
        self.add_lease(extended)
        return left_us

    def set(self, settings: SetQueue) -> None:
        """Change the settings of a queue. O(1)."""
        queue = self.queue(settings.queue)
        self._shared.kept.pin(PIECE_BYTES * ((queue.settings is None) - settings.empty))
        queue.settings = None if settings.empty else settings
        self._forget_idle(queue)

    def purge(self, name: str) -> Work[int]:
        """Drop the items of a queue but the leased ones, with breaks; return how many. O(n)."""
        queue = self.by_name.get(name)
        if queue is None:
            return 0
        dropped = 0
        while queue.hidden or queue.ready:
            hidden = list(islice(queue.hidden.values(), AT_ONCE))
            for each in hidden:
                each.cancel()
                del queue.hidden[each.item.number]
            items = [each.item for each in hidden] or queue.ready[-AT_ONCE:]
            if not hidden:
                del queue.ready[-AT_ONCE:]
            queue.lift(items)
            self.kept -= len(items)
            self.hidden_ones -= len(hidden)
            dropped += len(items)
            yield
        self._forget_idle(queue)
        return dropped

    def redrive(self, name: str, most: int | None) -> Work[int]:
        """Put the oldest dead items of a queue behind those that wait, with breaks; return how many.

        O(moved log n).
        """
        source = self.by_name.get(name + DEAD)
        if source is None:
            return 0
        now_us, position, target = self._shared.clock.now_us, self._shared.position, self.queue(name)
        moved = len(source.ready) if most is None else min(most, len(source.ready))
        for nth in range(moved):
            (item,) = source.pick(1)
            source.lift([item])
            target.weigh(item.size, item.owner)
            target.keep(Item(now_us, position, nth, item.number, item.put_us, 0, item.text, item.owner))
            if nth % AT_ONCE == 0:
                yield
        self._forget_idle(source)
        while target.ready and self.line.check_and_complete(name, limit=1):
            yield
        self._forget_idle(target)
        return moved

    # For takers, leases and hidden items.

    def pick(self, order: WantItem) -> list[Item]:
        """Take out the oldest items of a queue, as many as a taker may have."""
        queue = self.by_name.get(order.queue)
        if queue is None or not queue.ready:
            return []
        items = queue.pick(order.max)
        self.kept -= len(items)
        queue.lift(items)
        return items

    def leave(self, taker: Taker) -> None:
        """Forget a taker that is no longer in line."""
        lease_id, writer = taker.order.lease_id, taker.order.writer
        del self.takers[lease_id]
        queue = self.by_name[taker.order.queue]
        queue.takers -= 1
        self._forget_idle(queue)
        if writer is not None:
            takers = self.takers_of[writer]
            del takers[lease_id]
            if not takers:
                del self.takers_of[writer]

    def lease(self, taker: Taker, items: Sequence[Item]) -> None:
        """Begin the leases of a taker."""
        shared, order = self._shared, taker.order
        lease_us = min(taker.lease_us, shared.limits.max_lease_us)
        until_us = shared.clock.now_us + lease_us
        for lease_id, item in zip(lease_ids(order.lease_id), items, strict=False):
            lease = Lease(
                self,
                lease_id,
                order.lease_id,
                order.queue,
                item,
                lease_us=lease_us,
                position=shared.position,
                until_us=until_us,
                timeout=shared.seconds_until(until_us),
                owner=order.owner,
            )
            shared.totals.leases += 1
            shared.effects.append(ItemLeased(lease))
            self.add_lease(lease)

    def add_lease(self, lease: Lease) -> None:
        """Register a lease and start its deadline."""
        queue = self.queue(lease.queue)
        queue.leased += 1
        queue.weigh(lease.item.size, lease.item.owner)
        queue.weigh(PIECE_BYTES, lease.owner)
        self.leases[lease.id] = lease
        self.leasing.try_complete_else_watch(lease, (lease.queue,))

    def waited(self, taker: Taker) -> None:
        """Say that a taker's wait has ended."""
        self._shared.effects.append(TakerLeft(taker.order.lease_id, "waited"))

    def ended(self, lease: Lease, *, back: bool, delay: int = 0) -> None:
        """Remember the id of a lease that has ended, and put its item back if asked: hidden, or to the dead ones."""
        most = self.by_name[lease.queue].max_attempts
        self._end(lease)
        if not back:
            return
        item = lease.item._replace(attempts=lease.attempts)
        if most is not None and item.attempts >= most:
            self.dead += 1
            self._keep(lease.queue + DEAD, item)
        elif delay:
            self.queue(lease.queue).weigh(item.size, item.owner)
            self._hide(lease.queue, item, self._shared.clock.now_us + delay)
        else:
            self._keep(lease.queue, item)

    def hide(self, hidden: Hidden) -> None:
        """Register a hidden item and start its deadline."""
        self.queue(hidden.queue).hidden[hidden.item.number] = hidden
        self.kept += 1
        self.hidden_ones += 1
        self.delays.try_complete_else_watch(hidden, (hidden.queue,))

    def ripe(self, hidden: Hidden) -> None:
        """Show a hidden item."""
        queue = self.by_name[hidden.queue]
        del queue.hidden[hidden.item.number]
        self.hidden_ones -= 1
        queue.keep(hidden.item)
        self.serve(queue)

    def serve(self, queue: Queue) -> None:
        """Give the items of a queue to the takers in line, the oldest first."""
        while queue.ready and self.line.check_and_complete(queue.name, limit=1):
            pass

    def _keep(self, name: str, item: Item) -> None:
        """Give an item to the oldest taker, or keep it."""
        queue = self.queue(name)
        queue.weigh(item.size, item.owner)
        queue.keep(item)
        self.kept += 1
        self.serve(queue)

    def _hide(self, name: str, item: Item, until_us: int) -> None:
        shared = self._shared
        timeout = shared.seconds_until(until_us)
        since = shared.position
        hidden = Hidden(name, item, since=since, until_us=until_us, timeout=timeout, ripe=self.ripe)
        shared.effects.append(ItemHidden(hidden))
        self.hide(hidden)

    def _end(self, lease: Lease) -> None:
        self._let_go(lease)
        self.ended_leases.add(lease.id, self._shared.clock.now_us, lease.owner)
        self._forget_idle(self.by_name[lease.queue])

    def _let_go(self, lease: Lease) -> None:
        queue = self.by_name[lease.queue]
        queue.leased -= 1
        queue.lift([lease.item])
        queue.weigh(-PIECE_BYTES, lease.owner)
        del self.leases[lease.id]

    def _forget_idle(self, queue: Queue) -> None:
        if queue.idle:
            del self.by_name[queue.name]
            self._shared.kept.pin(-text_bytes(queue.name))

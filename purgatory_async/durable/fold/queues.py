"""The queues of the fold: their items, ready and hidden. `leases` has the takers in line and the leased items.

An item keeps its place in the order for ever: the time at which it was first due. So an item that comes back is in
front of those that were never leased.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import Raw, UnsetType

from purgatory_async import Purgatory
from purgatory_async.durable.fold.entries import NewItem, PutItem, PutItems, SetQueue, WantItem
from purgatory_async.durable.fold.items import DEAD, Hidden, Item, Queue
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, text_bytes
from purgatory_async.durable.fold.leases import ItemHidden, Lease, Leases, Line
from purgatory_async.durable.fold.results import OVERLOADED, Refused
from purgatory_async.durable.fold.shared import AT_ONCE, Shared, Work

_UNUSED: Final = Queue("")
"""Stands for a queue that has nothing; never changed."""


class Queues:
    """All queues, by name.

    Attributes:
        by_name: The queues that are not idle.
        kept: How many items they have together, hidden ones included.
        hidden_ones: How many of them are hidden.
        dead: How many items went to the dead ones since the log began.
        takers: The takers in line.
        leases: The leased items, and the ids of leases that have ended.
    """

    def __init__(self, shared: Shared) -> None:
        self.by_name: Final[dict[str, Queue]] = {}
        self.kept = 0
        self.hidden_ones = 0
        self.dead = 0
        self.takers: Final = Line(shared, self)
        self.leases: Final = Leases(shared, self)
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
        name, shared = entry.queue, self._shared
        piece = PIECE_BYTES if isinstance(entry.trace, UnsetType) else PIECE_BYTES + len(entry.trace)
        size = piece * len(new)
        for each in new:
            size += len(each.item)
        queue = self.by_name.get(name)
        if not (queue or _UNUSED).fits(len(new), size, shared.limits):
            return OVERLOADED
        return shared.refusal(entry, size if queue else size + text_bytes(name), size)

    def put(
        self, name: str, new: Sequence[NewItem], owner: str | None = None, trace: str | None = None
    ) -> list[tuple[int | str, bool]]:
        """Give items to the oldest takers, or keep or hide them. O(items log items of the queue).

        Returns:
            The number of each, and whether it was given.
        """
        shared = self._shared
        now_us, position = shared.clock.now_us, shared.position
        shared.totals.items += len(new)
        queue = self.queue(name)
        later, numbers = list[Item](), list[int | str]()
        for nth, each in enumerate(new):
            number = f"{position}.{nth}" if nth else position
            item = Item(now_us + each.delay_us, position, nth, number, now_us, 0, each.item, owner, trace)
            numbers.append(number)
            queue.weigh(item.size, owner)
            if each.delay_us:
                later.append(item)
            else:
                queue.keep(item)
        ready = len(numbers) - len(later)
        self.kept += ready
        if not queue.takers and not later:
            return [(number, False) for number in numbers]
        # A queue with takers had no item: those that are given are the first ones.
        given = 0
        if queue.takers:
            self.serve(queue)
            given = ready - len(queue.ready)
        # In the order of their times, as a checkpoint has them.
        for item in sorted(later):
            self._hide(name, item, item.due_us)
        found = list[tuple[int | str, bool]]()
        for number, each in zip(numbers, new, strict=True):
            found.append((number, not each.delay_us and given > 0))
            given -= not each.delay_us
        return found

    def tell(self, queue: str, item: Raw, owner: str | None, nth: int = 0) -> None:
        """Put an item that tells what happened in this step, whatever the limits. O(log items of the queue).

        Args:
            queue: The queue's name.
            item: The item.
            owner: Whose it is.
            nth: Its place in the step, behind the items that an entry puts; 0 in the step of another entry.
        """
        shared = self._shared
        now_us, position = shared.clock.now_us, shared.position
        shared.totals.items += 1
        number = f"{position}.{nth}" if nth else position
        self._keep(queue, Item(now_us, position, nth, number, now_us, 0, item, owner))

    def has_room(self, name: str, item: Raw) -> bool:
        """Whether a queue may have one more item, by its own limits. O(1)."""
        queue = self.by_name.get(name) or Queue(name)
        return queue.fits(1, len(item) + PIECE_BYTES, self._shared.limits)

    def knows(self, lease_id: str) -> bool:
        """Whether a taker or a lease has this id, or had it lately. O(1)."""
        return lease_id in self.takers or lease_id in self.leases or lease_id in self.leases.ended

    def gone(self, lease_id: str) -> None:
        """Remove a taker, or put its items back as they were; does nothing for one that has ended."""
        taker = self.takers.get(lease_id)
        if taker is not None:
            taker.cancel()
            self.takers.leave(taker)
            return
        for lease in self.leases.unshared(lease_id):
            lease.cancel()
            self.leases.end(lease)
            self._keep(lease.queue, lease.item)

    def end(self, lease: Lease, *, back: bool, delay: int = 0) -> None:
        """End a lease for its taker. O(log items of the queue)."""
        lease.cancel()
        if not back:
            self._shared.totals.acknowledged += 1
        self.ended(lease, back=back, delay=delay)

    def set(self, settings: SetQueue) -> None:
        """Change the settings of a queue. O(1)."""
        queue = self.queue(settings.queue)
        self._shared.kept.pin(PIECE_BYTES * ((queue.settings is None) - settings.empty))
        queue.settings = None if settings.empty else settings
        self.forget_idle(queue)

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
        self.forget_idle(queue)
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
            target.keep(item._replace(due_us=now_us, behind=position, nth=nth, attempts=0))
            if nth % AT_ONCE == 0:
                yield
        self.forget_idle(source)
        while target.ready and self.takers.serve(name):
            yield
        self.forget_idle(target)
        return moved

    # For takers, leases and hidden items.

    def pick(self, order: WantItem) -> list[Item]:
        """Take out the oldest items of a queue, as many as a taker may have; it counts their bytes as leased."""
        queue = self.by_name.get(order.queue)
        if queue is None or not queue.ready:
            return []
        items = queue.pick(order.max)
        self.kept -= len(items)
        return items

    def ended(self, lease: Lease, *, back: bool, delay: int = 0) -> None:
        """Remember the id of a lease that has ended, and put its item back if asked: hidden, or to the dead ones."""
        most = self.by_name[lease.queue].max_attempts if back else None
        self.leases.end(lease)
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
        while queue.takers and queue.ready and self.takers.serve(queue.name):
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

    def forget_idle(self, queue: Queue) -> None:
        """Forget a queue if there is nothing to know of it. O(1)."""
        if queue.idle:
            del self.by_name[queue.name]
            self._shared.kept.pin(-text_bytes(queue.name))

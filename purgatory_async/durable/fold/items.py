"""A queue of the fold: its items in order, its settings, and the bytes that both count."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple, final

from msgspec import UNSET, Raw, UnsetType

from purgatory_async import DelayedOperation
from purgatory_async.durable.fold.kept_bytes import PIECE_BYTES, KeptBytes
from purgatory_async.durable.fold.shared import SECOND, Limits

if TYPE_CHECKING:
    from purgatory_async.durable.fold.entries import SetQueue

DEAD: Final = ".dead"
"""The ending of the name of the queue that has a queue's dead items."""
LEASE_US: Final = 30 * SECOND
"""How long a lease lasts if neither its taker nor its queue says."""
QUEUE_SHARE: Final = 4
"""A queue may count a quarter of all bytes, unless it has a limit of its own."""
TAKE_BYTES: Final = 1 << 20
"""Of several items that one taker gets."""


class Item(NamedTuple):
    """An item. Items are ordered by their places, which are the first three members.

    Attributes:
        due_us: The log time at which it was first due.
        behind: Orders items that were first due at the same time: the position of the put, or of the return from the
            dead ones.
        nth: Its index in that entry.
        number: Its name: the position of its put; for a later item of a batch followed by a dot and its index.
        put_us: The log time of its put.
        attempts: How often it was leased.
        text: Its JSON.
        owner: Who put it; None without tokens.
        trace: The ``traceparent`` of its put; None without tracing.
    """

    due_us: int
    behind: int
    nth: int
    number: int | str
    put_us: int
    attempts: int
    text: Raw
    owner: str | None = None
    trace: str | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """What it is ordered by, unique in its queue."""
        return self[:3]

    @property
    def size(self) -> int:
        """The bytes that it counts."""
        size = len(self.text) + PIECE_BYTES
        return size if self.trace is None else size + len(self.trace)


@final
class Hidden(DelayedOperation[None]):
    """An item that cannot be taken yet.

    Attributes:
        queue: The name of its queue.
        item: The item.
        since: The position from which on it is hidden.
        until_us: The log time until which it is hidden.
    """

    __slots__ = ("_ripe", "item", "queue", "since", "until_us")

    def __init__(
        self,
        queue: str,
        item: Item,
        *,
        since: int,
        until_us: int,
        timeout: float,
        ripe: "Callable[[Hidden], object]",
    ) -> None:
        super().__init__(timeout)
        self.queue = queue
        self.item = item
        self.since = since
        self.until_us = until_us
        self._ripe = ripe

    def on_expiration(self) -> None:
        """Show the item."""
        self._ripe(self)


class Queue:
    """A queue with items, leases, takers or settings.

    Attributes:
        name: Its name.
        ready: A heap of the items to take.
        hidden: The items to take later, by number.
        leased: How many items are leased.
        takers: How many stand in line.
        size: The bytes that its items and leases count; changed by `weigh`.
        settings: What differs from every queue's; None for nothing.
    """

    __slots__ = ("_kept", "hidden", "leased", "name", "ready", "settings", "size", "takers")

    def __init__(self, name: str, kept: KeptBytes | None = None) -> None:
        self.name: Final = name
        self._kept: Final = KeptBytes() if kept is None else kept  # its own bytes are not counted
        self.ready: Final[list[Item]] = []
        self.hidden: Final[dict[int | str, Hidden]] = {}
        self.leased = 0
        self.takers = 0
        self.size = 0
        self.settings: SetQueue | None = None

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} ready={len(self.ready)} hidden={len(self.hidden)} leased={self.leased}>"

    @property
    def idle(self) -> bool:
        """Whether it can be dropped: it has no items, leases, takers or settings."""
        return not (self.ready or self.leased or self.takers or self.hidden or self.settings)

    @property
    def count(self) -> int:
        """How many items it has, leased ones included."""
        return len(self.ready) + len(self.hidden) + self.leased

    @property
    def lease_us(self) -> int:
        """How long a lease lasts whose taker did not ask for a length."""
        own = UNSET if self.settings is None else self.settings.lease_us
        return LEASE_US if isinstance(own, UnsetType) else own

    @property
    def max_attempts(self) -> int | None:
        """How often an item is leased before it goes to the dead ones; None for no limit."""
        own = UNSET if self.settings is None else self.settings.max_attempts
        return None if isinstance(own, UnsetType) else own

    def max_bytes(self, limits: Limits) -> int | None:
        """Return the most bytes that it may count; None for no limit."""
        own = UNSET if self.settings is None else self.settings.max_bytes
        if not isinstance(own, UnsetType):
            return own
        return limits.max_kept // QUEUE_SHARE

    def max_items(self, limits: Limits) -> int | None:
        """Return the most items that it may have; None for no limit."""
        own = UNSET if self.settings is None else self.settings.max_items
        return limits.max_items if isinstance(own, UnsetType) else own

    def fits(self, count: int, size: int, limits: Limits) -> bool:
        """Whether it may have more items, so many and of so many bytes. O(1)."""
        if self.settings is None:  # as of nearly every queue
            most = limits.max_kept // QUEUE_SHARE
            items = len(self.ready) + len(self.hidden) + self.leased
            return items + count <= limits.max_items and self.size + size <= most
        max_items, max_bytes = self.max_items(limits), self.max_bytes(limits)
        return (max_items is None or self.count + count <= max_items) and (
            max_bytes is None or self.size + size <= max_bytes
        )

    def limit_for(self, count: int, limits: Limits) -> tuple[str, int]:
        """Return the limit that refuses so many more items: of ``items`` or ``bytes``, and how many."""
        max_items, max_bytes = self.max_items(limits), self.max_bytes(limits)
        if max_items is not None and (max_bytes is None or self.count + count > max_items):
            return "items", max_items
        return "bytes", max_bytes or 0

    def weigh(self, size: int, owner: str | None) -> None:
        """Count more bytes of an owner, all pinned; a negative size counts fewer. O(1)."""
        self.size += size
        self._kept.pin(size, owner)

    def lift(self, items: Iterable[Item]) -> None:
        """Count some items no longer. O(items)."""
        for item in items:
            self.weigh(-item.size, item.owner)

    def keep(self, item: Item) -> None:
        """Add an item to take, without its bytes. O(log n)."""
        heappush(self.ready, item)

    def pick(self, most: int) -> list[Item]:
        """Take out the oldest items that one taker may get at once: at least one if there is one. O(taken log n)."""
        ready = self.ready
        picked, left = list[Item](), TAKE_BYTES
        while ready and len(picked) < most and (not picked or len(ready[0].text) <= left):
            item = heappop(ready)
            left -= len(item.text)
            picked.append(item)
        return picked

    def take_back(self, number: int) -> bool:
        """Drop an item to take that no taker has had; return whether it was there. O(n)."""
        item = next((each for each in self.ready if each.number == number), None)
        if item is None or item.attempts:
            return False
        self.ready.remove(item)
        heapify(self.ready)
        self.lift([item])
        return True

    def in_order(self) -> list[Item]:
        """Return the items to take in their order, for reading; O(n), or O(n log n) at first."""
        self.ready.sort()  # a sorted list is a heap
        return self.ready

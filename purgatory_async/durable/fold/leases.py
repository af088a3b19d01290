"""Takers and leases of the queues: delayed operations of the library, and the effects of their ends.

A taker waits on its queue until an item comes or its wait ends. A lease lasts until it is acknowledged or expires.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, final

from purgatory_async import DelayedOperation
from purgatory_async.durable.fold.entries import WantItem
from purgatory_async.durable.fold.items import Hidden, Item
from purgatory_async.durable.fold.shared import Effect

MAX_TAKEN: Final = 100
"""The most items that one taker gets."""


class Keeper(Protocol):
    """Keeps the items, as `queues.Queues`."""

    def pick(self, order: WantItem) -> list[Item]:
        """Take out the oldest items of a queue, as many as a taker may have."""
        ...

    def lease(self, taker: "Taker", items: Sequence[Item]) -> None:
        """Begin the leases of a taker."""

    def leave(self, taker: "Taker") -> None:
        """Forget a taker that is no longer in line."""

    def waited(self, taker: "Taker") -> None:
        """Say that a taker's wait has ended."""

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
            self._keeper.lease(self, self.result)
        self._keeper.leave(self)

    def on_expiration(self) -> None:
        """Say that the wait has ended."""
        self._keeper.waited(self)


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
    """

    __slots__ = (
        *("_keeper", "id", "item", "lease_us", "owner"),
        *("position", "queue", "taker", "until_us"),
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
    ) -> None:
        super().__init__(timeout)
        self._keeper = keeper
        self.owner = owner
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


def lease_ids(taker: str) -> Iterator[str]:
    """Iterate over the ids of a taker's leases: its own, and for each further item one made of it."""
    yield taker
    for nth in range(1, MAX_TAKEN):
        yield f"{taker}.{nth}"

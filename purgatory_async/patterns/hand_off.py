"""A hand-off: each item goes to exactly one taker, and none is lost on the way.

An item stays in its queue until a taker's condition picks it up in the purgatory's check. A cancelled taker is not
asked. A taker cancelled in the same loop pass in which it got its item puts the item back in front, for the next
taker. In that window a future under `asyncio.timeout`, or a `Queue.get` in a task under `asyncio.wait`, loses its
item, and Python 3.11's `wait_for` swallows the cancellation (python -m tests.soak.race).
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import Generic, TypeVar

from purgatory_async import (
    OperationCancelled,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.errors import refuse_again
from purgatory_async.patterns._arguments import check_integer

__all__ = ["HandOff"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class HandOff(Generic[K, T]):
    """Queues by key that give each item to one taker: the oldest taker first, the oldest item first.

    A purgatory that drains or is closed ends the waits, but takers still get the items that are left, at once.

    Args:
        purgatory: Keeps the takers; the queues' keys are its watch keys. Give it a purgatory of its own.
        max_items: How many items to keep for later takers, over all keys; None for no limit.

    Raises:
        TypeError, ValueError: An argument has the wrong type or is out of bounds.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("jobs") as purgatory:
    ...         jobs = HandOff(purgatory)
    ...         jobs.put("resize", "cat.png")
    ...         print(await jobs.take("resize", "rotate", timeout=5))
    >>> asyncio.run(main())
    ('resize', 'cat.png')
    """

    __slots__ = (
        "__weakref__",
        "_items",
        "_kept",
        "_max_items",
        "_numbers",
        "_numbers_before",
        "_purgatory",
        "returned",
    )

    returned: int
    """How many items came back because their taker was cancelled as it got them."""

    def __init__(self, purgatory: Purgatory, *, max_items: int | None = None) -> None:
        refuse_again(self, "_purgatory")
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        if max_items is not None:
            max_items = check_integer("max_items", max_items, least=1)
        self._purgatory = purgatory
        self._max_items = max_items
        self._items: dict[K, list[tuple[int, T]]] = {}  # heaps: a returned item keeps its number
        self._kept = 0
        self.returned = 0
        self._numbers = count()
        self._numbers_before = count(-1, -1)

    def __repr__(self) -> str:
        return f"<HandOff in {self._purgatory.name!r} items={self._kept} max_items={self._max_items}>"

    def __len__(self) -> int:
        """How many items are kept for later takers. O(1)."""
        return self._kept

    @property
    def timer(self) -> Timer:
        """The timer that expires its takers."""
        return self._purgatory.timer

    def put(self, key: K, item: T) -> bool:
        """Give an item to the oldest taker of ``key``, or keep it for the next.

        Returns:
            Whether a taker has it already.

        Raises:
            PurgatoryFull: No taker waits, and ``max_items`` are kept already; the item is not kept.
            PurgatoryClosed: The purgatory is closed.
            TypeError: ``key`` is not hashable.

        O(log n) with n items kept for the key.
        """
        if self._purgatory.closed:
            raise PurgatoryClosed(
                f"{self._purgatory!r} is closed: cannot keep an item for {key!r}", keys=(key,)
            )
        number = next(self._numbers)
        self._keep(key, number, item)
        try:
            self._offer(key)
        except PurgatoryError:  # called from a check or another loop: no taker was asked
            self._withdraw_newest(key)
            raise
        kept = self._items.get(key)
        if kept is None or kept[0][0] > number:  # they are taken in order: it is gone
            return True
        if self._max_items is not None and self._kept > self._max_items:
            self._withdraw_newest(key)
            raise PurgatoryFull(
                f"the hand-off is full: cannot keep an item for {key!r}, max_items is {self._max_items}",
                limit=self._max_items,
            )
        return False

    def put_back(self, key: K, item: T) -> bool:
        """Put an item that `take` returned back in front of its queue, as when processing it failed.

        It goes to the oldest taker, if any. It is never refused, not even above ``max_items``. O(log n).

        Returns:
            Whether a taker has it already.

        Raises:
            PurgatoryError: Called from a `try_complete` of the purgatory, or from another loop; the item is kept.
        """
        number = next(self._numbers_before)
        self._keep(key, number, item)
        self._offer(key)
        kept = self._items.get(key)
        return kept is None or kept[0][0] != number

    async def take(self, *keys: K, timeout: float | None = None) -> tuple[K, T]:
        """Wait for an item.

        Args:
            *keys: The queues to take from; if several have items, the first of them.
            timeout: Seconds, as for any operation.

        Returns:
            The key and the item, which no other taker gets.

        Raises:
            OperationExpired: No item came in time.
            OperationCancelled: Another call ended the wait for one of its keys, without an item.
            PurgatoryClosed: The purgatory is draining or closed, and no item is left.
            PurgatoryFull, PurgatoryError, ValueError, TypeError: As `Purgatory.wait`.

        If the task is cancelled before this returns, an item it was given goes back to its place and to the next
        taker. O(keys + log n).
        """
        picked: tuple[K, int, T] | None = None

        def pick() -> bool:
            """Pick an item for this taker, if one is kept."""
            nonlocal picked
            picked = self._pick(keys)
            return picked is not None

        try:
            await self._purgatory.wait(*keys, until=pick, timeout=timeout)
        except PurgatoryClosed:  # draining or closed: what is left is still handed out
            if picked is None and not pick():
                raise
        except BaseException:
            if picked is not None:
                self.returned += 1
                self._keep(*picked)
                self._offer(picked[0])
            raise
        if picked is None:
            raise OperationCancelled(
                f"the wait for an item of {', '.join(map(repr, keys))} was ended without one", keys=keys
            )
        key, _, item = picked
        return key, item

    def clear(self) -> list[tuple[K, T]]:
        """Take out all kept items, as at shutdown.

        Returns:
            (key, item) pairs in the order they were put, returned items first. O(n log n).
        """
        kept = [(number, key, item) for key, items in self._items.items() for number, item in items]
        kept.sort(key=itemgetter(0))
        self._items.clear()
        self._kept = 0
        return [(key, item) for _, key, item in kept]

    def _keep(self, key: K, number: int, item: T) -> None:
        heappush(self._items.setdefault(key, []), (number, item))
        self._kept += 1

    def _offer(self, key: K) -> None:
        """Ask the takers of a key, oldest first, until one has the item."""
        try:
            completed = self._purgatory.check_and_complete(key, limit=1)
        except (KeyboardInterrupt, SystemExit):  # from a hook: the completed operation may not be a taker
            self._purgatory.check_and_complete(key)
            raise
        if completed and key in self._items:
            self._purgatory.check_and_complete(key)  # completed a non-taker; check the rest

    def _pick(self, keys: tuple[K, ...]) -> tuple[K, int, T] | None:
        for key in keys:
            items = self._items.get(key)
            if items is not None:
                number, item = heappop(items)
                if not items:
                    del self._items[key]
                self._kept -= 1
                return key, number, item
        return None

    def _withdraw_newest(self, key: K) -> None:
        """Take back the item kept last: the newest is still where the heap appended it."""
        self._items[key].pop()
        if not self._items[key]:
            del self._items[key]
        self._kept -= 1

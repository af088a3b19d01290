"""A broadcast: every subscriber gets every item, in order, and one that comes back goes on where it was.

The newest items are kept in one ring, which all subscribers read; a subscriber is a position in it, without a buffer of
its own. One that is slower than the ring is told how many items it missed, instead of holding up the others or growing
without bound. An item published between the moment a subscriber was made and its first step is not lost, nor is one
that arrives in the pass in which a reader is cancelled: it stays in the ring, and the reader at its position.
"""

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Generic, Literal, Self, TypeAlias, TypeVar
from weakref import WeakSet

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, PurgatoryError, Timer
from purgatory_async.clock import check_timeout
from purgatory_async.errors import check_callback, refuse_again
from purgatory_async.patterns._arguments import check_integer

__all__ = ["Broadcast", "Lagged", "Published", "SubscriberLagged"]

T = TypeVar("T")

_UNKNOWN: Final = -1  # the position of a subscriber that names an item which is not known here


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Published(Generic[T]):
    """An item of a broadcast.

    Attributes:
        index: Its place in the order, a good ``after``.
        item: What was published; every subscriber gets the same object.
    """

    index: int
    item: T


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Lagged:
    """Items that a subscriber missed, in their place in the order.

    Attributes:
        missed: How many; None if that is not known.
        index: A good ``after``: the next item is the oldest one kept.
    """

    missed: int | None
    index: int


class SubscriberLagged(PurgatoryError):  # noqa: N818 - the contract calls it by what happened, as the library's
    """A subscriber missed items: ``missed`` and ``index`` are as in `Lagged`."""

    def __init__(self, *args: object, missed: int | None = None, index: int = 0) -> None:
        super().__init__(*args)
        self.missed = missed
        self.index = index


Event: TypeAlias = Published[T] | Lagged


class Broadcast(Generic[T]):
    """The newest items of a stream, for any number of subscribers, each of which gets all in order.

    Close it before its purgatory drains, so that subscribers end. The purgatory's close raises `PurgatoryClosed` in
    them.

    Args:
        purgatory: Keeps the subscribers that wait; may be shared.
        max_items: How many items to keep.
        max_bytes: How many bytes of items to keep; None for no limit. The newest item is always kept.
        size_of: Returns an item's bytes; called once for each, only with ``max_bytes``.

    Raises:
        TypeError, ValueError: An argument has the wrong type or is out of bounds.

    >>> import asyncio
    >>> async def main():
    ...     async with Purgatory("news") as purgatory:
    ...         news = Broadcast(purgatory, max_items=2)
    ...         for item in ("a", "b", "c"):
    ...             news.publish(item)
    ...         news.close()
    ...         async for event in news.subscribe(after=0):
    ...             print(event)
    >>> asyncio.run(main())
    Lagged(missed=1, index=1)
    Published(index=2, item='b')
    Published(index=3, item='c')
    """

    __slots__ = ("__weakref__", "_max_bytes", "_ring", "_size_of", "epoch")

    epoch: str
    """Random text: the indexes of another broadcast, or of a run before, mean something else."""

    def __init__(
        self,
        purgatory: Purgatory,
        *,
        max_items: int = 1024,
        max_bytes: int | None = None,
        size_of: Callable[[T], int] = len,  # type: ignore[assignment]  # of items that have one
    ) -> None:
        refuse_again(self, "_ring")
        if not isinstance(purgatory, Purgatory):
            raise TypeError(f"purgatory must be a Purgatory, got {purgatory!r}")
        check_callback("size_of", size_of)
        max_items = check_integer("max_items", max_items, least=1)
        self._max_bytes = None if max_bytes is None else check_integer("max_bytes", max_bytes, least=1)
        self._size_of = size_of
        self.epoch = secrets.token_hex(8)
        self._ring: _Ring[T] = _Ring(purgatory, f"broadcast {self.epoch}", max_items, self._max_bytes)

    def __repr__(self) -> str:
        return repr(self._ring)

    @property
    def newest(self) -> int:
        """The index of the newest item; 0 if there has been none."""
        return self._ring.newest

    @property
    def oldest(self) -> int:
        """The index of the oldest item kept; ``newest + 1`` if none is."""
        return self._ring.oldest

    @property
    def subscribers(self) -> int:
        """How many iterators of `subscribe` exist that have not ended."""
        return len(self._ring.subscriptions)

    @property
    def timer(self) -> Timer:
        """The timer that expires `next`."""
        return self._ring.purgatory.timer

    def publish(self, item: T) -> int:
        """Give an item to all subscribers; it never waits.

        Returns:
            Its index, from 1.

        Raises:
            PurgatoryClosed: The broadcast or its purgatory is closed.
            ValueError: The item is above ``max_bytes``, or ``size_of`` returned a negative number.
            TypeError: ``size_of`` returned no integer.
            PurgatoryError: Called from a check of the purgatory, or from another loop.
            BaseException: What ``size_of`` raised. After any error nothing is published.

        O(1 + subscribers that wait), amortised.
        """
        size = 0
        if self._max_bytes is not None:
            size = check_integer("size_of(item)", self._size_of(item), least=0)
            if size > self._max_bytes:
                raise ValueError(f"item must be at most {self._max_bytes} bytes, got {size}")
        ring = self._ring
        ring.require_open("publish")
        ring.wake()  # first: it refuses a wrong loop before anything changes, and the woken read in a later step
        return ring.keep(item, size)

    def subscribe(
        self, *, after: int | None = None, on_lag: Literal["tell", "raise"] = "tell"
    ) -> AsyncIterator[Event[T]]:
        """Return an iterator over the items after an index, for ``async for`` in one task. O(1).

        It gives what is kept without letting other tasks run in between, then waits for more; it ends once the
        broadcast is closed. A cancelled step loses nothing: the next one returns the same event.

        Args:
            after: The index of the last item that the subscriber has had; 0 for all that is kept. If not given, it
                gets the items published from this call on.
            on_lag: What comes in place of items that are no longer kept: ``"tell"`` returns a `Lagged`, ``"raise"``
                raises `SubscriberLagged`. The step after it returns the oldest item kept. An ``after`` above `newest`
                counts as such, with ``missed=None``.

        Raises:
            TypeError, ValueError: An argument is invalid.

        A step of the iterator raises `PurgatoryClosed` if the purgatory is closed, or draining as it begins to wait,
        and `PurgatoryFull` and `PurgatoryError` as `Purgatory.wait`.
        """
        if on_lag not in {"tell", "raise"}:
            raise ValueError(f"on_lag must be 'tell' or 'raise', got {on_lag!r}")
        ring = self._ring
        return _Subscription(
            ring, ring.newest if after is None else ring.position_of(after), raises=on_lag == "raise"
        )

    async def next(self, after: int, *, timeout: float | None = None) -> Event[T]:
        """Wait for the item after an index.

        Args:
            after: As for `subscribe`.
            timeout: Seconds, as for any operation.

        Returns:
            The item, at once if it is kept; or a `Lagged`, whose ``index`` is the ``after`` to go on with.

        Raises:
            OperationExpired: No item was published in time.
            PurgatoryClosed: The broadcast or its purgatory is closed, or the purgatory is draining and the item is
                not there yet.
            PurgatoryFull, PurgatoryError: As `Purgatory.wait`.
            TypeError, ValueError: An argument is invalid.

        Cancelling the task removes the wait at once. O(1).
        """
        ring = self._ring
        position = ring.position_of(after)
        timeout = check_timeout(timeout)
        ring.require_open("read an item")
        try:
            return await ring.after(position, timeout)
        except OperationExpired:
            raise OperationExpired(
                f"no item after {after} was published within {timeout} s", keys=(ring.key,), timeout=timeout
            ) from None

    def close(self) -> None:
        """Let subscribers end once they have had what is kept, and refuse new items; closing again does nothing.

        `next` raises `PurgatoryClosed`, also where it waits. The purgatory stays open. O(subscribers that wait).

        Raises:
            PurgatoryError: As `publish`.
        """
        ring = self._ring
        if not ring.purgatory.closed:
            ring.wake()
        ring.closed = True


class _Ring(Generic[T]):
    """The newest items, and the waits for the next one.

    Args:
        purgatory: Keeps the waits.
        key: Which they watch.
        max_items: How many items to keep.
        max_bytes: Their sizes in all; None for no limit.
    """

    __slots__ = (
        "_bytes",
        "_max_bytes",
        "_max_items",
        "_sizes",
        "closed",
        "kept",
        "key",
        "newest",
        "purgatory",
        "subscriptions",
    )

    def __init__(self, purgatory: Purgatory, key: str, max_items: int, max_bytes: int | None) -> None:
        self.purgatory = purgatory
        self.key = key
        self._max_items = max_items
        self._max_bytes = max_bytes
        self.kept: dict[int, Published[T]] = {}  # by index
        self._sizes: deque[int] = deque()  # of what is kept, if bytes are limited
        self._bytes = 0
        self.newest = 0
        self.closed = False
        self.subscriptions: WeakSet[_Subscription[T]] = WeakSet()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return (
            f"<Broadcast in {self.purgatory.name!r} {state} at {self.newest} kept={len(self.kept)} "
            f"subscribers={len(self.subscriptions)}>"
        )

    @property
    def oldest(self) -> int:
        """The index of the oldest item kept."""
        return self.newest - len(self.kept) + 1

    def keep(self, item: T, size: int) -> int:
        """Append an item and drop the oldest ones above the limits; returns its index."""
        self.newest = index = self.newest + 1
        self.kept[index] = Published(index, item)
        if self._max_bytes is not None:
            self._sizes.append(size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._drop_oldest()
        if len(self.kept) > self._max_items:
            self._drop_oldest()
        return index

    def wake(self) -> None:
        """Let all that wait read again."""
        self.purgatory.complete_for_key(self.key)

    def position_of(self, after: int) -> int:
        """The position behind the item with an index."""
        after = check_integer("after", after, least=0)
        return after if after <= self.newest else _UNKNOWN

    async def after(self, position: int, timeout: float | None) -> Event[T]:
        """Wait for the event after a position; what is kept can be read also once the broadcast is closed.

        Raises:
            PurgatoryClosed: The broadcast is closed and no item is left, or its purgatory is closed.
            OperationExpired, PurgatoryFull, PurgatoryError: As `Purgatory.wait`.
        """
        if not self.closed:
            self.require_open("read an item")
        while (event := self.read(position)) is None:
            self.require_open("wait for an item")
            await self.purgatory.wait(self.key, timeout=timeout)
        return event

    def read(self, position: int) -> Event[T] | None:
        """Return the event after a position; None if it has yet to come."""
        event = self.kept.get(position + 1)
        if event is not None or position == self.newest:
            return event
        index = self.oldest - 1
        return Lagged(None if position == _UNKNOWN else index - position, index)

    def require_open(self, verb: str) -> None:
        """Raise `PurgatoryClosed` if the broadcast or its purgatory is closed."""
        if self.closed or self.purgatory.closed:
            closed = self if self.closed else self.purgatory
            raise PurgatoryClosed(f"{closed!r} is closed: cannot {verb}", keys=(self.key,))

    def _drop_oldest(self) -> None:
        del self.kept[self.oldest]
        if self._max_bytes is not None:
            self._bytes -= self._sizes.popleft()


class _Subscription(Generic[T]):
    """A position in a ring, which each step moves on."""

    __slots__ = ("__weakref__", "_position", "_raises", "_reading", "_ring")

    def __init__(self, ring: _Ring[T], position: int, *, raises: bool) -> None:
        self._ring = ring
        self._position = position
        self._raises = raises
        self._reading = False
        ring.subscriptions.add(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[T]:
        if self._reading:
            raise PurgatoryError(
                f"a subscriber of {self._ring!r} waits: cannot read it twice at once; subscribe once for each task"
            )
        self._reading = True
        try:
            event = await self._ring.after(self._position, None)
        except PurgatoryClosed:
            if not self._ring.closed:
                raise
            self._ring.subscriptions.discard(self)
            raise StopAsyncIteration from None
        finally:
            self._reading = False
        self._position = event.index
        if self._raises and isinstance(event, Lagged):
            missed = "an unknown number of" if event.missed is None else event.missed
            raise SubscriberLagged(
                f"the subscriber missed {missed} items up to {event.index}; its next step returns the oldest kept",
                missed=event.missed,
                index=event.index,
            )
        return event

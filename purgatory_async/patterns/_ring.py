"""The ring behind a broadcast: the newest items, which all subscribers read, and the waits for the next one."""

import secrets
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from purgatory_async import Purgatory, PurgatoryClosed, PurgatoryError
from purgatory_async.patterns._arguments import check_integer

__all__ = ["Event", "Lagged", "LogRing", "Published", "Ring", "Signal", "SignalLog"]

T = TypeVar("T")
S_co = TypeVar("S_co", bound="Signal", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)
S = TypeVar("S", bound="Signal")


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


Event: TypeAlias = Published[T] | Lagged


class Signal(Protocol):
    """A signal of a cluster: its place in the log, and its key."""

    @property
    def position(self) -> int:
        """Its index in a broadcast."""
        ...

    @property
    def key(self) -> str:
        """What it is on."""
        ...


class _Hearer(Protocol[S_contra]):
    def heard(self, signalled: S_contra) -> None:
        """A signal was applied."""

    def lost(self) -> None:
        """There was a gap."""

    def close(self) -> None:
        """Nothing comes after this."""


class SignalLog(Protocol[S_co]):
    """What a broadcast needs of a `Cluster`, which is a layer above this one."""

    @property
    def purgatory(self) -> Purgatory:
        """Where subscribers wait."""
        ...

    @property
    def position(self) -> int:
        """The newest position that this worker has applied."""
        ...

    @property
    def epoch(self) -> str:
        """Which log positions belong to."""
        ...

    def add_hearer(self, hearer: _Hearer[S_co]) -> None:
        """Feed a ring for as long as it exists; see `purgatory_async.cluster.applier.Hearer`."""
        ...

    async def caught_up(self, position: int | None = None, timeout: float | None = None) -> int:
        """Wait until this worker has applied the log's end of now; return the position applied."""
        ...


class Ring(Generic[T]):
    """The newest items by their place among all, from 1, and the waits for the next one.

    A position is the place of the item before; if it is negative, minus an index that is not known here.
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "_max_bytes",
        "_size_of",
        "_token",
        "closed",
        "kept",
        "key",
        "last",
        "max_items",
        "purgatory",
        "sizes",
        "subscriptions",
    )

    counts = True
    """Whether it knows how many items it no longer keeps."""

    def __init__(
        self,
        purgatory: Purgatory,
        max_items: int,
        max_bytes: int | None = None,
        size_of: Callable[[Any], int] = len,
    ) -> None:
        self.purgatory = purgatory
        self.max_items = max_items
        self._max_bytes = max_bytes
        self._size_of = size_of
        self.sizes: deque[int] = deque()  # of what is kept; zeros if bytes are not limited
        self._bytes = 0
        self._token = secrets.token_hex(8)
        self.key = f"broadcast {self._token}"  # watched by those that wait for the next item
        self.kept: dict[int, Published[T]] = {}
        self.last = 0  # place
        self.closed = False
        self.subscriptions: WeakSet[object] = WeakSet()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return (
            f"<Broadcast in {self.purgatory.name!r} {state} at {self.newest} kept={len(self.kept)} "
            f"subscribers={len(self.subscriptions)}>"
        )

    @property
    def epoch(self) -> str:
        """Which indexes belong together."""
        return self._token

    @property
    def before(self) -> int:
        """The position before the oldest item kept."""
        return self.last - len(self.kept)

    @property
    def newest(self) -> int:
        """The newest index."""
        return self.last

    @property
    def oldest(self) -> int:
        """The index of the oldest item kept; ``newest + 1`` if none is."""
        return self.before + 1

    def publish(self, item: T) -> int:
        """Append an item and wake those that wait; returns its index, or raises and changes nothing."""
        self.require_open("publish")
        size = 0
        if self._max_bytes is not None:
            size = check_integer("size_of(item)", self._size_of(item), least=0)
            if size > self._max_bytes:
                raise ValueError(f"item must be at most {self._max_bytes} bytes, got {size}")
        self.wake()  # first: it refuses a wrong loop before anything changes, and the woken read in a later step
        index = self.last + 1
        self.keep(Published(index, item), size)
        return index

    def keep(self, event: Published[T], size: int) -> None:
        """Append an item, and drop the oldest ones above the limits."""
        self.last += 1
        self.kept[self.last] = event
        self.sizes.append(size)
        self._bytes += size
        while len(self.kept) > self.max_items or self._bytes > (
            self._max_bytes or 0
        ):  # sizes are 0 without it
            del self.kept[self.before + 1]
            self._bytes -= self.sizes.popleft()

    def wake(self) -> None:
        """Let all that wait read again."""
        self.purgatory.complete_for_key(self.key)

    def close(self) -> None:
        """Refuse new items, and let those that wait see it."""
        if not self.purgatory.closed:
            self.wake()
        self.closed = True

    def position_of(self, after: int) -> int:
        """The position behind an index."""
        after = check_integer("after", after, least=0)
        return after if after <= self.last else -after

    async def after(self, position: int, timeout: float | None) -> tuple[Event[T], int]:
        """Wait for the event after a position; returns it, and the position behind it.

        Raises:
            PurgatoryClosed: The broadcast is closed and has no item left, or its purgatory is closed.
            OperationExpired, PurgatoryFull, PurgatoryError: As `Purgatory.wait`.
        """
        if not self.closed:
            self.require_open("read an item")
        while (event := self.kept.get(position + 1)) is None:
            if position != self.last:
                missed = self.before - position if self.counts and position >= 0 else None
                return Lagged(missed, self.oldest - 1), self.before
            self.require_open("wait for an item")
            await self.purgatory.wait(self.key, timeout=timeout)
        return event, position + 1

    def require_open(self, verb: str) -> None:
        """Raise `PurgatoryClosed` if the broadcast or its purgatory is closed."""
        if self.closed or self.purgatory.closed:
            closed = self if self.closed else self.purgatory
            raise PurgatoryClosed(f"{closed!r} is closed: cannot {verb}", keys=(self.key,))


class LogRing(Ring[S]):
    """A ring that a cluster feeds: indexes are positions of its log, between which there are others."""

    __slots__ = ("_cluster", "_floor", "_key", "_prefix")

    counts = False

    def __init__(self, cluster: SignalLog[S], key: str | None, prefix: str, max_items: int) -> None:
        super().__init__(cluster.purgatory, max_items)
        self._cluster = cluster
        self._key = key
        self._prefix = prefix
        self.last = 1  # a place that was never kept: position 0 is behind
        self._floor = cluster.position  # the newest index that may be missing
        cluster.add_hearer(self)

    @property
    def epoch(self) -> str:
        """The log's."""
        return self._cluster.epoch

    @property
    def newest(self) -> int:
        """The position that the cluster has applied."""
        return self._cluster.position

    @property
    def oldest(self) -> int:
        """The position of the oldest signal kept; ``newest + 1`` if none is."""
        return self.kept[self.before + 1].index if self.kept else self.newest + 1

    def publish(self, item: S) -> int:
        """Raise `PurgatoryError`: what is published here would not reach the other workers."""
        raise PurgatoryError(f"{self!r} is fed by {self._cluster!r}: cannot publish {item!r}; signal there")

    def heard(self, signalled: S) -> None:
        """Keep a signal; called by the cluster."""
        key = signalled.key
        wanted = key.startswith(self._prefix) if self._key is None else key == self._key
        if not wanted or self.closed:
            return
        self.wake()
        if len(self.kept) == self.max_items:
            self._floor = self.oldest
        self.keep(Published(signalled.position, signalled), 0)

    def lost(self) -> None:
        """Go on behind a gap of the log; called by the cluster."""
        self.wake()
        self.kept.clear()
        self.sizes.clear()
        self.last += 1
        self._floor = self.newest

    def position_of(self, after: int) -> int:
        """The position behind an index; O(log n) with n signals kept."""
        after = check_integer("after", after, least=0)
        if after > self.newest:
            return -after
        if after < self._floor:
            return 0
        kept = range(self.before + 1, self.last + 1)
        return self.before + bisect_right(kept, after, key=lambda place: self.kept[place].index)

    async def after(self, position: int, timeout: float | None) -> tuple[Event[S], int]:
        """Wait for the event after a position, at first until this worker has come to it."""
        if position < 0:
            timer = self.purgatory.timer
            begun = timer.time()
            position = await self._reached(-position, timeout)
            timeout = None if timeout is None else max(0.0, timeout - (timer.time() - begun))
        return await super().after(position, timeout)

    async def _reached(self, index: int, timeout: float | None) -> int:
        """Wait for what another worker has applied; returns the position behind it."""
        epoch = self.epoch
        try:
            await self._cluster.caught_up(timeout=timeout)  # the end of the log now
        except PurgatoryError:
            if self.closed:  # with the cluster
                return self.last
            if self.epoch == epoch:
                raise
        return (
            self.position_of(index) if self.epoch == epoch else 0
        )  # in another epoch it means something else

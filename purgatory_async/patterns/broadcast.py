"""A broadcast: every subscriber gets every item, in order, and one that comes back goes on where it was.

The newest items are kept in one ring, which all subscribers read; a subscriber is a position in it, without a buffer of
its own. One that is slower than the ring learns how many items it missed, instead of holding up the others or growing
without bound. An item published between the moment a subscriber was made and its first step is not lost, nor is one
that arrives in the pass in which a reader is cancelled: it stays in the ring, and the reader at its position.

`Broadcast.of` fills the ring from the log of a `Cluster`. Then all workers have the same indexes, and a client that
comes back may come to another worker.
"""

from collections.abc import AsyncIterator, Callable
from typing import Generic, Literal, Self, TypeVar

from purgatory_async import OperationExpired, Purgatory, PurgatoryClosed, PurgatoryError, Timer
from purgatory_async.clock import check_timeout
from purgatory_async.errors import check_callback, refuse_again
from purgatory_async.patterns._arguments import check_integer
from purgatory_async.patterns._ring import Event, Lagged, LogRing, Published, Ring, Signal, SignalLog

__all__ = ["Broadcast", "Lagged", "Published", "SubscriberLagged"]

T = TypeVar("T")
S = TypeVar("S", bound=Signal)


class SubscriberLagged(PurgatoryError):  # noqa: N818 - the contract calls it by what happened, as the library's
    """A subscriber missed items: ``missed`` and ``index`` are as in `Lagged`."""

    def __init__(self, *args: object, missed: int | None = None, index: int = 0) -> None:
        super().__init__(*args)
        self.missed = missed
        self.index = index


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

    __slots__ = ("__weakref__", "_ring")

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
        if max_bytes is not None:
            max_bytes = check_integer("max_bytes", max_bytes, least=1)
        self._ring: Ring[T] = Ring(purgatory, max_items, max_bytes, size_of)

    @staticmethod
    def of(
        cluster: SignalLog[S],
        key: str | None = None,
        *,
        prefix: str | None = None,
        max_items: int = 1024,
    ) -> "Broadcast[S]":
        """Return a broadcast of a cluster's signals, of which each item is a `Signalled` and its index the position.

        The cluster feeds it with what this worker applies from now on, for as long as it is referenced, also by a
        subscriber; it closes it as it leaves its log. A `Lagged` has ``missed=None``, also at a gap of the log. Where
        another worker is ahead, an ``after`` of there is waited for, with the errors of `Cluster.caught_up`.

        Args:
            cluster: An open `Cluster`, in whose purgatory subscribers wait.
            key: Signals on this key.
            prefix: Signals on keys that begin with this. If neither is given, all signals.
            max_items: As for `Broadcast`.

        Raises:
            TypeError, ValueError: An argument is invalid, or ``key`` and ``prefix`` are both given.
            LogError: The cluster is not open.
        """
        if key is not None and prefix is not None:
            raise ValueError(f"key or prefix must be given, not both, got {key!r} and {prefix!r}")
        wanted = key if prefix is None else prefix
        if wanted is not None and not isinstance(wanted, str):
            raise TypeError(f"key and prefix must be text, got {wanted!r}")
        max_items = check_integer("max_items", max_items, least=1)
        if not hasattr(cluster, "add_hearer"):
            raise TypeError(f"cluster must be a Cluster, got {cluster!r}")
        return _OfCluster(LogRing(cluster, key, prefix or "", max_items))

    def __repr__(self) -> str:
        return repr(self._ring)

    @property
    def epoch(self) -> str:
        """Random text: the indexes of another broadcast, or of a run before, mean something else."""
        return self._ring.epoch

    @property
    def newest(self) -> int:
        """The index of the newest item, 0 if there has been none; of a cluster's the position that it has applied."""
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
            PurgatoryError: Called from a check of the purgatory, or from another loop; or it is fed by a cluster.
            BaseException: What ``size_of`` raised. After any error nothing is published.

        O(1 + subscribers that wait), amortised.
        """
        return self._ring.publish(item)

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
        if on_lag not in ("tell", "raise"):
            raise ValueError(f"on_lag must be 'tell' or 'raise', got {on_lag!r}")
        ring = self._ring
        position = ring.last if after is None else ring.position_of(after)
        return _Subscription(ring, position, raises=on_lag == "raise")

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
            event, _ = await ring.after(position, timeout)
        except OperationExpired:
            raise OperationExpired(
                f"no item after {after} was published within {timeout} s", keys=(ring.key,), timeout=timeout
            ) from None
        return event

    def close(self) -> None:
        """Let subscribers end once they have had what is kept, and refuse new items; closing again does nothing.

        `next` raises `PurgatoryClosed`, also where it waits. The purgatory stays open. O(subscribers that wait).

        Raises:
            PurgatoryError: As `publish`.
        """
        self._ring.close()


class _OfCluster(Broadcast[T]):
    """A broadcast whose ring is filled elsewhere."""

    __slots__ = ()

    def __init__(self, ring: Ring[T]) -> None:
        refuse_again(self, "_ring")
        self._ring = ring


class _Subscription(Generic[T]):
    """A position in a ring, which each step moves on."""

    __slots__ = ("__weakref__", "_position", "_raises", "_reading", "_ring")

    def __init__(self, ring: Ring[T], position: int, *, raises: bool) -> None:
        self._ring = ring
        self._position = position
        self._raises = raises
        self._reading = False
        ring.subscriptions.add(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[T]:
        ring = self._ring
        if self._reading:
            raise PurgatoryError(
                f"a subscriber of {ring!r} waits: cannot read it twice at once; subscribe once for each task"
            )
        self._reading = True
        try:
            event, self._position = await ring.after(self._position, None)
        except PurgatoryClosed:
            if not ring.closed:
                raise
            ring.subscriptions.discard(self)
            raise StopAsyncIteration from None
        finally:
            self._reading = False
        if self._raises and isinstance(event, Lagged):
            missed = "an unknown number of" if event.missed is None else event.missed
            raise SubscriberLagged(
                f"the subscriber missed {missed} items up to {event.index}; its next step returns the oldest kept",
                missed=event.missed,
                index=event.index,
            )
        return event

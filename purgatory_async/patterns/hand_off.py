"""A hand-off: each item goes to exactly one taker, and none is lost on the way.

An item stays in its queue until a taker's condition picks it up in the purgatory's check. A cancelled taker is not
asked. A taker cancelled in the same loop pass in which it got its item puts the item back in front, for the next
taker. In that window a future under `asyncio.timeout`, or a `Queue.get` in a task under `asyncio.wait`, loses its
item, and Python 3.11's `wait_for` swallows the cancellation (python -m tests.soak.race).

A put that waits keeps its item until its task runs: room is only reserved for it, so that a put cancelled meanwhile
has put nothing. It keeps its place in line until then, also when it was called for a taker that has left.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from heapq import heappush
from typing import Generic, Self, TypeVar

from purgatory_async import (
    OperationCancelled,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryFull,
    Timer,
)
from purgatory_async.clock import check_timeout
from purgatory_async.errors import refuse_again, refuse_number
from purgatory_async.patterns._arguments import check_integer, check_keys, listed, named_by, not_in_time
from purgatory_async.patterns._items import Items, Queue

__all__ = ["HandOff"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Put(Generic[K]):
    """A put that waits in line; also its watch key."""

    __slots__ = ("called", "key", "reserved")

    def __init__(self, key: K) -> None:
        self.key = key
        self.called = False  # as a taker of its key came
        self.reserved = False  # room, and it has left the line


class _Line(Generic[K]):
    """The puts that wait for room, oldest first: all of them, and by key."""

    __slots__ = ("by_key", "puts")

    def __init__(self) -> None:
        self.puts: OrderedDict[_Put[K], None] = OrderedDict()
        self.by_key: dict[K, OrderedDict[_Put[K], None]] = {}

    def enter(self, put: _Put[K]) -> None:
        """Add a put as the last."""
        self.puts[put] = self.by_key.setdefault(put.key, OrderedDict())[put] = None

    def leave(self, put: _Put[K]) -> None:
        """Remove a put, if it is in line."""
        if put in self.puts:
            del self.puts[put]
            del self.by_key[put.key][put]
            if not self.by_key[put.key]:
                del self.by_key[put.key]


class _Intake(Generic[K, T]):
    """How items come in; base of `HandOff`."""

    __slots__ = (
        *("_dropping", "_items", "_joins", "_line", "_max_items", "_purgatory", "_reserved", "_shut"),
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
        self._items: Items[K, T] = Items()
        self._line: _Line[K] = _Line()
        self._reserved = 0  # room, for puts that have left the line and yet to run
        self._shut = self._dropping = False
        self._joins = 0
        self.returned = 0

    def put(self, key: K, item: T) -> bool:
        """Give an item to the oldest taker of ``key``, or keep it for the next.

        Returns:
            Whether a taker has it already.

        Raises:
            PurgatoryFull: No taker waits, and ``max_items`` are kept already, or a `put_wait` for the key waits; the
                item is not kept.
            PurgatoryClosed: The purgatory is closed, or the hand-off is shut down.
            TypeError: ``key`` is not hashable.

        O(log n) with n items kept for the key.
        """
        if self._purgatory.closed or self._shut:
            raise self._closed("keep an item for", key)
        given = None if self._line.puts and key in self._line.by_key else self._put(key, item)
        if given is None:
            raise PurgatoryFull(
                f"the hand-off is full: cannot keep an item for {key!r}, max_items is {self._max_items}",
                limit=self._max_items,
            )
        return given

    async def put_wait(self, key: K, item: T, *, timeout: float | None = None) -> bool:
        """Put an item as `put`, once there is room for it or a taker; returns whether a taker has it already.

        Room is reserved for the puts that wait, in the order of their calls. A taker gets the item of the oldest that
        waits for its key though there is no room. If the task is cancelled before this returns, nothing was put.

        Args:
            key: The queue.
            item: The item.
            timeout: Seconds, as for any operation.

        Raises:
            OperationExpired: No room came in time; nothing was put.
            PurgatoryClosed: The purgatory is closed, or drains and there is no room; or the hand-off is shut down.
            PurgatoryFull, OperationCancelled, PurgatoryError, ValueError, TypeError: As `Purgatory.wait`.

        O(log n) with n items kept for the key.
        """
        left = timeout = check_timeout(timeout)
        try:
            return self.put(key, item)
        except PurgatoryFull:
            put = _Put(key)
        until = None if timeout is None else self._purgatory.timer.time() + timeout
        room = f"room for an item of {key!r}"
        self._line.enter(put)
        try:
            while True:
                await named_by(self._purgatory.wait(put, timeout=left), room, (key,), timeout)
                if self._purgatory.closed or self._shut:
                    raise self._closed("keep an item for", key)
                given = self._put(key, item, reserved=put.reserved)
                if given is not None:
                    return given
                put.called = False  # the taker has left
                if until is not None and (left := until - self._purgatory.timer.time()) <= 0:
                    raise not_in_time(room, (key,), timeout)
        finally:
            self._leave_line(put)

    def put_back(self, key: K, item: T) -> bool:
        """Put an item that was taken back in front of its queue, as when processing it failed.

        It goes to the oldest taker, if any. It is never refused above ``max_items`` or after a `HandOff.shutdown`
        that is not immediate, and `HandOff.join` waits for it as before. O(log n).

        Returns:
            Whether a taker has it already.

        Raises:
            PurgatoryClosed: The hand-off was shut down immediately; the item is not kept.
            PurgatoryError: Called from a `try_complete` of the purgatory, or from another loop; the item is kept.
        """
        if self._dropping:
            raise self._closed("keep an item for", key)
        number = next(self._items.numbers_before)
        queue = self._items.keep(key, number, item)
        self._items.leave_hand(key)
        self._offer(key, queue)
        return not queue or queue[0][0] != number

    def _put(self, key: K, item: T, *, reserved: bool = False) -> bool | None:
        """Offer an item, then keep it; returns whether a taker has it, None if there is no room."""
        items = self._items
        number = next(items.numbers)
        queue = items.queues.get(key)
        if queue is None:
            queue = items.add(key)
        heappush(queue, (number, item))
        items.kept += 1
        try:
            self._offer(key, queue)
        except PurgatoryError:  # called from a check or another loop: no taker was asked
            items.withdraw_newest(key)
            raise
        if not queue or queue[0][0] > number:  # they are taken in order: it is gone
            return True
        limit = self._max_items
        if limit is not None and items.kept + self._reserved > limit and not reserved:
            items.withdraw_newest(key)
            return None
        return False

    def _offer(self, key: K, queue: Queue[T]) -> None:
        """Ask the takers of a key, oldest first, until one has an item of its queue."""
        try:
            completed = self._purgatory.check_and_complete(key, limit=1)
        except (KeyboardInterrupt, SystemExit):  # from a hook: the completed operation may not be a taker
            self._purgatory.check_and_complete(key)
            raise
        if completed and queue:
            self._purgatory.check_and_complete(key)  # completed a non-taker; check the rest

    def _make_room(self) -> None:
        """Reserve what room there is for the oldest puts in line."""
        puts = self._line.puts
        while puts and self._max_items is not None and self._items.kept + self._reserved < self._max_items:
            put = next(iter(puts))
            woken = self._purgatory.complete_for_key(put)
            self._line.leave(put)
            if woken or put.called:  # otherwise it ended a moment ago
                put.reserved = True
                self._reserved += 1

    def _call(self, keys: tuple[K, ...]) -> None:
        """Let the first put of each key look for a taker; when it has found one, it calls the next."""
        for key in keys:
            if puts := self._line.by_key.get(key):
                put = next(iter(puts))
                if not put.called:
                    put.called = True
                    self._purgatory.complete_for_key(put)

    def _leave_line(self, put: _Put[K]) -> None:
        """End a put's wait, and hand on what it may not have used."""
        self._line.leave(put)
        self._reserved -= put.reserved
        if put.called:
            self._call((put.key,))
        self._make_room()

    def _closed(self, verb: str, *keys: K) -> PurgatoryClosed:
        what = "the hand-off is shut down" if self._shut else f"{self._purgatory!r} is closed"
        return PurgatoryClosed(f"{what}: cannot {verb} {listed(keys)}", keys=keys)


class HandOff(_Intake[K, T]):
    """Queues by key that give each item to one taker: the oldest taker first, the oldest item first.

    A purgatory that drains or is closed ends the waits, but takers still get the items that are left, at once; so it
    is after a `shutdown`.

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

    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        waiting = f" waiting_puts={len(self._line.puts)}" if self._line.puts else ""
        return (
            f"<HandOff in {self._purgatory.name!r} items={len(self)} max_items={self._max_items}{waiting}"
            f"{' shut down' if self._shut else ''}>"
        )

    def __len__(self) -> int:
        """How many items are kept for later takers. O(1)."""
        return self._items.kept

    @property
    def timer(self) -> Timer:
        """The timer that expires its takers."""
        return self._purgatory.timer

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
            PurgatoryClosed: No item is left, and the purgatory is draining or closed, or the hand-off is shut down.
            PurgatoryFull, PurgatoryError, ValueError, TypeError: As `Purgatory.wait`.

        If the task is cancelled before this returns, an item it was given goes back to its place and to the next
        taker. O(keys + log n).
        """
        picked: tuple[K, int, T] | None = None

        def pick() -> bool:
            """Pick an item for this taker, if one is kept; shut down, it waits no longer."""
            nonlocal picked
            picked = self._items.pick(keys)
            return picked is not None or self._shut

        if self._line.puts and not any(map(self._items.queues.get, keys)):
            self._call(keys)
        try:
            await self._purgatory.wait(*keys, until=pick, timeout=timeout)
        except PurgatoryClosed:  # draining or closed: what is left is still handed out
            if picked is None and not pick():
                raise
        except BaseException:
            if picked is not None:
                self._take_back(*picked)
            raise
        if picked is None:
            raise self._without_item(keys)
        if self._line.puts:
            self._make_room()
        key, _, item = picked
        return key, item

    def take_nowait(self, *keys: K) -> tuple[K, T]:
        """Take an item that is kept, as `take`. O(keys + log n).

        Raises:
            QueueEmpty: None is kept; puts may wait nevertheless, while there is no room for them.
            PurgatoryClosed: None is left, and the purgatory is closed or the hand-off is shut down.
            PurgatoryError: Puts wait, and the call is inside a `try_complete` of the purgatory or on another loop.
            ValueError, TypeError: There are no keys, or one is not hashable.
        """
        check_keys(keys)
        if self._line.puts:
            self._refuse_signals()
        picked = self._items.pick(keys)
        if picked is None:
            if self._purgatory.closed or self._shut:
                raise self._closed("take an item of", *keys)
            raise asyncio.QueueEmpty(f"no item of {listed(keys)} is kept")
        if self._line.puts:
            self._make_room()
        key, _, item = picked
        return key, item

    def items(self, *keys: K) -> "_Takes[K, T]":
        """Return an async iterator over what `take` returns, until the hand-off is shut down and no item is left.

        Several tasks may take from one iterator. It raises what `take` raises, also when the purgatory is closed.

        Raises:
            ValueError, TypeError: There are no keys, or one is not hashable.
        """
        check_keys(keys)
        return _Takes(lambda: self.take(*keys), lambda: self._shut)

    def task_done(self, key: K) -> None:
        """Report that an item taken from a queue is processed, for `join`. O(1).

        Raises:
            ValueError: It was called as often as items of ``key`` were taken.
            PurgatoryError: A `join` waits, and the call is inside a `try_complete` of the purgatory or on another
                loop; or items of more than 4096 keys were in hand before the first call of this or of `join`.
        """
        self._items.ask()
        if self._joins:
            self._refuse_signals()
        if not self._items.leave_hand(key):
            raise ValueError(
                f"task_done must be called once for each item taken, got a further one for {key!r}"
            )
        self._end_joins((key,))

    async def join(self, *keys: K, timeout: float | None = None) -> None:
        """Wait until every item that was put has been taken and reported done, or cleared.

        Args:
            *keys: The queues that must be finished at one moment; none for all.
            timeout: Seconds, as for any operation.

        Raises:
            OperationExpired: They were not finished in time.
            PurgatoryClosed: The purgatory is closed, or drains and they are not finished.
            PurgatoryFull, OperationCancelled, PurgatoryError, ValueError, TypeError: As `Purgatory.wait`, `task_done`.

        O(keys), now and whenever one of them is finished.
        """
        timeout = check_timeout(timeout)
        if timeout is None and keys:
            refuse_number(keys)
        self._items.ask()
        if self._purgatory.closed:
            raise self._closed("wait for the items of", *keys)
        if self._items.finished(keys):
            return
        watched: list[Hashable] = [*((self, key) for key in keys)] or [self]
        waiting = self._purgatory.wait(*watched, until=lambda: self._items.finished(keys), timeout=timeout)
        self._joins += 1
        try:
            await named_by(waiting, f"the end of the items of {listed(keys)}", keys, timeout)
        finally:
            self._joins -= 1

    def clear(self) -> list[tuple[K, T]]:
        """Take out all kept items, as at shutdown; `join` does not wait for them. O(n log n).

        Returns:
            (key, item) pairs in the order they were put, returned items first.

        Raises:
            PurgatoryError: A `put_wait` or `join` waits, and the call is inside a `try_complete` of the purgatory or on
                another loop; nothing changes.
        """
        if self._line.puts or self._joins:
            self._refuse_signals()
        kept = self._items.clear()
        self._end_joins(tuple(dict(kept)))
        self._make_room()
        return kept

    def shutdown(self, immediate: bool = False) -> None:
        """Refuse further items, and end the waits of takers and puts: they raise `PurgatoryClosed`.

        Takers still get what is left, and `put_back` may add to it. O(operations in the purgatory).

        Args:
            immediate: Drop what is left; it counts as done. `put_back` is refused, too.

        Raises:
            PurgatoryError: The call is inside a `try_complete` of the purgatory or on another loop; nothing changes.
        """
        self._refuse_signals()
        self._shut = True
        for put in list(self._line.puts):
            self._purgatory.complete_for_key(put)
        if immediate:
            self._dropping = True
            self.clear()
        for key, _ in self._purgatory.watchers():  # takers wait on them, or others that bear a check
            self._purgatory.check_and_complete(key)

    def _take_back(self, key: K, number: int, item: T) -> None:
        """Keep the item of a cancelled taker for the next."""
        self.returned += 1
        self._items.leave_hand(key)
        if self._dropping:
            self._end_joins((key,))
        else:
            self._offer(key, self._items.keep(key, number, item))

    def _end_joins(self, keys: tuple[K, ...]) -> None:
        """End the waits for keys that are finished by now."""
        if self._joins:
            for key in keys:
                if self._items.finished((key,)):
                    self._purgatory.check_and_complete((self, key))
            if self._items.finished(()):
                self._purgatory.check_and_complete(self)

    def _refuse_signals(self) -> None:
        """Raise where waits cannot be ended, before anything changes."""
        self._purgatory.check_and_complete(self)

    def _without_item(self, keys: tuple[K, ...]) -> PurgatoryError:
        if self._shut:
            return self._closed("wait for an item of", *keys)
        return OperationCancelled(f"the wait for an item of {listed(keys)} was ended without one", keys=keys)


class _Takes(Generic[K, T]):
    """An iterator over the items that one or several tasks take."""

    __slots__ = ("_has_ended", "_take")

    def __init__(self, take: Callable[[], Awaitable[tuple[K, T]]], has_ended: Callable[[], bool]) -> None:
        self._take = take
        self._has_ended = has_ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[K, T]:
        try:
            return await self._take()
        except PurgatoryClosed:
            if self._has_ended():
                raise StopAsyncIteration from None
            raise

"""Entries and buckets: an intrusive, circular, doubly linked list.

A bucket is its own sentinel, so adding and removing an entry are a few pointer stores without a branch. An entry
needs two pointers, 16 bytes, instead of a list or dict slot, and unlinking touches only its neighbours. From about
100 000 entries on, cancelling in random order is bound by cache misses, so fewer bytes win.

An entry is in at most one bucket; ``_next is None`` means in none. Only this package and the timer write the links.
"""

from collections.abc import Iterator
from operator import index
from typing import Final, Generic, TypeVar

from purgatory_async.errors import refuse_again, refuse_copy
from purgatory_async.native import also_compiled

_P = TypeVar("_P")

LAST_TICK: Final = 2**62
"""The largest tick; the smallest is ``1 - LAST_TICK``: so the difference of two ticks has 64 bits."""


def check_tick_number(name: str, tick: int) -> int:
    """Return a tick as a plain integer.

    Raises:
        TypeError: It is no integer.
        ValueError: It is out of bounds.
    """
    number = index(tick)
    if not -LAST_TICK < number <= LAST_TICK:
        raise ValueError(f"{name} must be above -2**62 and at most 2**62, got {number}")
    return number


@also_compiled
class Link:
    """Two pointers; base of buckets and entries."""

    __slots__ = ("_next", "_prev")

    _next: "Link"
    _prev: "Link"

    __reduce_ex__ = refuse_copy


@also_compiled
class TimerNode(Link):
    """Base of every item of a `TimerQueue`: a deadline and a place in a bucket."""

    __slots__ = ("_tick",)

    _tick: int

    @property
    def deadline_tick(self) -> int:
        """The tick at which it is due."""
        return self._tick

    @deadline_tick.setter
    def deadline_tick(self, tick: int) -> None:
        """Set it, within the bounds of a tick."""
        self._tick = check_tick_number("deadline_tick", tick)

    @property
    def scheduled(self) -> bool:
        """Whether a timer queue holds this entry."""
        return self._next is not None


@also_compiled
class TimerEntry(TimerNode, Generic[_P]):
    """A deadline with a payload.

    Args:
        deadline_tick: The tick at which it is due, at most 2**62; writable while the entry is not scheduled.
        payload: Yours; the queue never reads it.

    >>> entry = TimerEntry(30, "close the window")
    >>> entry.deadline_tick, entry.payload, entry.scheduled
    (30, 'close the window', False)
    """

    __slots__ = ("__weakref__", "payload")

    def __init__(self, deadline_tick: int, payload: _P | None = None) -> None:
        refuse_again(self, "_tick")
        self.deadline_tick = deadline_tick
        self.payload = payload
        self._next = None  # type: ignore[assignment]  # a cleared link; typing each link Optional would cost asserts

    def __repr__(self) -> str:
        state = "scheduled" if self.scheduled else "out"
        return f"<TimerEntry deadline_tick={self.deadline_tick} {state} payload={self.payload!r}>"


@also_compiled
class Bucket(Link):
    """The entries of one tick or range of ticks, in order of arrival."""

    __slots__ = ()

    def __init__(self) -> None:
        refuse_again(self, "_next")
        self._next = self._prev = self

    @property
    def empty(self) -> bool:
        """Whether it has no entry."""
        return self._next is self

    def append(self, entry: TimerNode) -> None:
        """Link an entry that is in no bucket at the end. O(1)."""
        last = self._prev
        entry._next = self
        entry._prev = last
        last._next = self._prev = entry

    def take(self, due: list[TimerNode], budget: int) -> int:
        """Unlink up to ``budget`` entries from the front, all if it is negative, and append them to ``due``.

        Returns:
            The rest of the budget.
        """
        entry = self._next
        while entry is not self and budget:
            following = entry._next
            entry._next = entry._prev = None  # type: ignore[assignment]  # keeps no neighbour alive
            due.append(entry)  # type: ignore[arg-type]  # all but the sentinel are entries
            entry = following
            budget -= 1
        self._next = entry
        entry._prev = self
        return budget

    def prepend(self, entry: TimerNode) -> None:
        """Link an entry at the front. O(1)."""
        first = self._next
        entry._next = first
        entry._prev = self
        first._prev = self._next = entry

    def drop(self) -> None:
        """Clear the links of an empty bucket, which are a reference cycle."""
        self._next = self._prev = None  # type: ignore[assignment]  # see TimerEntry.__init__

    def check_invariants(self) -> int:
        """Assert that the links agree in both directions; returns the number of entries. O(n)."""
        count = 0
        link: Link = self
        while True:
            following = link._next
            assert following is not None, f"link after entry {count} is cut"
            assert following._prev is link, f"entry {count} is linked forwards but not backwards"
            if following is self:
                return count
            link = following
            count += 1


def entries_of(bucket: Bucket) -> Iterator[TimerNode]:
    """Yield the entries of a bucket in order; the one yielded last may be unlinked meanwhile."""
    entry = bucket._next
    while isinstance(entry, TimerNode):
        following = entry._next
        yield entry
        entry = following


def unlink(entry: Link) -> None:
    """Remove a linked entry from its bucket, so that it keeps no neighbour alive. O(1)."""
    following, previous = entry._next, entry._prev
    following._prev = previous
    previous._next = following
    entry._next = entry._prev = None  # type: ignore[assignment]  # see TimerEntry.__init__

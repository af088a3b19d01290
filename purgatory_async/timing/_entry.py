"""Entries and buckets: an intrusive, circular, doubly linked list.

A bucket is its own sentinel, so adding and removing an entry are a handful of pointer stores without a branch,
and an entry needs two pointers instead of a list or dict slot: 16 bytes, and unlinking touches only its
neighbours. From about 100 000 entries on, cancelling in random order is cache misses, so fewer bytes win.

An entry is in at most one bucket; ``_next is None`` means in none. Nothing but this package and the timer
built on it writes the links.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Bucket", "TimerEntry", "TimerNode"]

_P = TypeVar("_P")


class Link:
    """Two pointers: what buckets and their entries have in common."""

    __slots__ = ("_next", "_prev")

    _next: "Link"
    _prev: "Link"


class TimerNode(Link):
    """Anything a `TimerQueue` can hold; carries its deadline and its place in a bucket, nothing else."""

    __slots__ = ("deadline_tick",)

    deadline_tick: int

    @property
    def scheduled(self) -> bool:
        """Whether a timer queue holds this entry at the moment."""
        return self._next is not None


class TimerEntry(TimerNode, Generic[_P]):
    """A deadline with something to do at it.

    Args:
        deadline_tick: The tick at which it is due; writable while the entry is not scheduled.
        payload: Yours; the queue never looks at it.

    >>> entry = TimerEntry(30, "close the window")
    >>> entry.deadline_tick, entry.payload, entry.scheduled
    (30, 'close the window', False)
    """

    __slots__ = ("__weakref__", "payload")

    def __init__(self, deadline_tick: int, payload: _P | None = None) -> None:
        self.deadline_tick = deadline_tick
        self.payload = payload
        self._next = None  # type: ignore[assignment]  # a cleared link; typing each link Optional would cost asserts

    def __repr__(self) -> str:
        state = "scheduled" if self.scheduled else "out"
        return f"<TimerEntry deadline_tick={self.deadline_tick} {state} payload={self.payload!r}>"


class Bucket(Link):
    """The entries of one tick or range of ticks, in the order they came."""

    __slots__ = ()

    def __init__(self) -> None:
        self._next = self._prev = self

    @property
    def empty(self) -> bool:
        """Whether no entry is left in it."""
        return self._next is self

    def append(self, entry: TimerNode) -> None:
        """Link an entry that is in no bucket at the end. O(1)."""
        last = self._prev
        entry._next = self
        entry._prev = last
        last._next = self._prev = entry

    def take(self, due: list[TimerNode], budget: int) -> int:
        """Move entries from the front to the end of ``due``, all of them or as many as the budget allows.

        Args:
            due: Takes the entries; they are unlinked.
            budget: How many at most; negative means all.

        Returns:
            What is left of the budget.
        """
        entry = self._next
        while entry is not self and budget:
            following = entry._next
            entry._next = entry._prev = None  # type: ignore[assignment]  # clear_links(entry), without the call
            due.append(entry)  # type: ignore[arg-type]  # whatever is not the sentinel is an entry
            entry = following
            budget -= 1
        self._next = entry
        entry._prev = self
        return budget

    def drop(self) -> None:
        """Give up an empty bucket without leaving the cycle that a sentinel is."""
        clear_links(self)

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
    """The entries of a bucket in order; the one given last may be unlinked meanwhile."""
    entry = bucket._next
    while isinstance(entry, TimerNode):
        following = entry._next
        yield entry
        entry = following


def unlink(entry: TimerNode) -> None:
    """Take a linked entry out of the bucket it is in. O(1)."""
    entry._next._prev = entry._prev
    entry._prev._next = entry._next
    clear_links(entry)


def clear_links(link: Link) -> None:
    """Clear both pointers, so that what was taken out keeps no neighbour alive."""
    link._next = link._prev = None  # type: ignore[assignment]  # see TimerEntry.__init__

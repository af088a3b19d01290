"""The hashed timing wheel: one wheel, with rounds.

Varghese and Lauck's scheme 6, which Netty's and Dubbo's timers use: the entries of tick *t* are in bucket
``t % wheel_size``, together with the entries of all later turns. A visit to a bucket takes the due entries and leaves
the rest for another round. An entry keeps its absolute deadline, as in Agrona, instead of a counter of rounds, so
leaving it costs a comparison.

In Netty an entry for an exact multiple of the tick waits one tick more, which doubles the period of a task that
resubmits itself each tick. Here an entry is due exactly on its tick.

Prefer it for deadlines within one turn (``wheel_size`` ticks): then no entry moves between buckets. It visits
deadlines many turns away once a turn, and `next_tick` searches up to ``wheel_size`` buckets; `TimingWheel` has
neither cost.

>>> wheel = HashedWheel(wheel_size=8)
>>> for tick in (3, 11, 4):
...     _ = wheel.schedule(TimerEntry(tick))             # 3 and 11 share bucket 3
>>> [entry.deadline_tick for entry in wheel.advance(3)], wheel.next_tick
([3], 4)
>>> [entry.deadline_tick for entry in wheel.advance(20)]
[4, 11]
"""

from collections.abc import Iterator

from purgatory_async.errors import refuse_again, refuse_copy
from purgatory_async.timing._entry import Bucket, TimerEntry, TimerNode, check_tick_number, entries_of, unlink
from purgatory_async.timing._queue import already_scheduled, check_limit, check_wheel_size

__all__ = ["HashedWheel", "TimerEntry"]


class HashedWheel:
    """A `TimerQueue` for deadlines that are nearly all within one turn.

    Args:
        wheel_size: Number of buckets, at least 2; Netty and Dubbo use 512.
        start_tick: The present.

    Raises:
        ValueError: ``wheel_size`` is below 2.
        TypeError: ``wheel_size`` is no integer.
    """

    __slots__ = ("__weakref__", "_barren", "_buckets", "_count", "_hand", "_kept", "_wheel_size", "now_tick")

    __reduce_ex__ = refuse_copy

    def __init__(self, wheel_size: int = 512, start_tick: int = 0) -> None:
        refuse_again(self, "_wheel_size")
        wheel_size = check_wheel_size(wheel_size)
        self.now_tick = start_tick = check_tick_number("start_tick", start_tick)
        self._wheel_size = wheel_size
        self._buckets: dict[int, Bucket] = {}  # by position; no empty ones are added
        self._hand = start_tick  # every tick up to this one is done
        self._barren = 0  # ticks passed since the last due entry
        # Entries of later turns from the bucket after the hand, until its visit ends.
        self._kept: Bucket | None = None
        self._count = 0

    def __repr__(self) -> str:
        return f"<HashedWheel wheel_size={self._wheel_size} now_tick={self.now_tick} entries={self._count}>"

    def __len__(self) -> int:
        """How many entries wait. O(1)."""
        return self._count

    def schedule(self, entry: TimerNode) -> bool:
        """Add an entry; False if it is due already. O(1). See `TimerQueue.schedule`."""
        if entry._next is not None:
            raise already_scheduled(entry)
        tick = entry.deadline_tick
        if tick <= self.now_tick:
            return False
        position = tick % self._wheel_size
        bucket = self._buckets.get(position)
        if bucket is None:
            bucket = self._buckets[position] = Bucket()
        bucket.append(entry)
        self._count += 1
        return True

    def cancel(self, entry: TimerNode) -> bool:
        """Remove an entry at once; False if it was not waiting. O(1)."""
        if entry._next is None:
            return False
        unlink(entry)
        self._count -= 1
        return True

    @property
    def next_tick(self) -> int | None:
        """The next tick with a non-empty bucket, of any turn; None when empty. O(wheel_size).

        After a whole turn without a due entry, the earliest deadline itself, O(n): so a far deadline costs no
        wakeup per turn.
        """
        if not self._count:
            return None
        first = self._hand + 1
        if self._kept is not None:
            return first
        if self._barren >= self._wheel_size:
            return min(self._deadlines())
        waiting = [position for position, bucket in self._buckets.items() if not bucket.empty]
        return first + min((position - first) % self._wheel_size for position in waiting)

    def advance(self, now_tick: int, limit: int | None = None) -> list[TimerNode]:
        """Move time forward and return due entries in order of deadline. See `TimerQueue.advance`.

        Each visited entry, due or of a later turn, counts towards ``limit``. An empty bucket costs a dict lookup,
        for at most two turns; after a barren turn the hand jumps to the next deadline, O(n).
        """
        budget = check_limit(limit)
        now_tick = self.now_tick = max(check_tick_number("now_tick", now_tick), self.now_tick)
        due: list[TimerNode] = []
        while self._hand < now_tick and budget:
            if self._barren >= self._wheel_size < now_tick - self._hand and self._kept is None:
                self._jump()
                continue
            tick = self._hand + 1
            found = len(due)
            bucket = self._buckets.get(tick % self._wheel_size)
            if bucket is not None:
                budget = self._visit(bucket, tick, due, budget)
                if not bucket.empty:
                    break  # the budget ended here; the hand waits
                self._end_visit(tick % self._wheel_size, bucket)
            self._hand = tick
            self._barren = 0 if len(due) > found else self._barren + 1
        self._count -= len(due)
        return due

    def check_invariants(self) -> None:
        """Assert that links, counts and places agree. O(n), for tests."""
        counted = 0
        for position, bucket in self._buckets.items():
            counted += bucket.check_invariants()
            for entry in entries_of(bucket):
                tick = entry.deadline_tick
                assert tick % self._wheel_size == position, f"tick {tick} is in bucket {position}"
                assert tick > self._hand, f"tick {tick} is behind the hand at {self._hand}"
        if self._kept is not None:
            assert self._hand < self.now_tick, f"entries are kept, yet the hand has reached {self.now_tick}"
            counted += self._kept.check_invariants()
        assert counted == self._count, f"{counted} entries are linked, {self._count} counted"

    def _visit(self, bucket: Bucket, tick: int, due: list[TimerNode], budget: int) -> int:
        """Take entries due at ``tick`` and set the others aside, within the budget; returns its rest."""
        for entry in entries_of(bucket):
            if not budget:
                break
            budget -= 1
            unlink(entry)
            if entry.deadline_tick <= tick:
                due.append(entry)
                continue
            if self._kept is None:
                self._kept = Bucket()
            self._kept.append(entry)
        return budget

    def _end_visit(self, position: int, bucket: Bucket) -> None:
        """Replace the visited bucket by the entries set aside."""
        if self._kept is None:
            del self._buckets[position]
        else:
            self._buckets[position] = self._kept
            self._kept = None
        bucket.drop()

    def _jump(self) -> None:
        """After a barren turn, move the hand to just before the next deadline. O(n)."""
        self._hand = min(self.now_tick, min(self._deadlines(), default=self.now_tick + 1) - 1)
        self._barren = 0

    def _deadlines(self) -> Iterator[int]:
        """All deadlines, in no order."""
        return (entry.deadline_tick for bucket in self._buckets.values() for entry in entries_of(bucket))

"""The hierarchical timing wheel, with sparse slots.

The structure is Varghese and Lauck's (1987, scheme 7), as in Kafka: level 0 has a bucket per tick, each level
above a bucket per ``wheel_size`` buckets of the level below. An entry goes into the finest level that reaches its
deadline; when a coarse bucket's range begins, its entries move down ("cascade"). Adding and cancelling are O(1); an
entry moves at most once per level, and most are cancelled before they move.

Two things differ from the textbook. Slots are a dict keyed by the first tick of the bucket's range, so only used
buckets exist, an unused level costs nothing, and no index arithmetic wraps around. And a heap of integers, pushed
once per *bucket*, yields the next bucket, so an idle wheel needs no ticking and a jump costs only the buckets in it.

A worked example, with two buckets per bucket of the next level (wheel_size=2):

>>> wheel = TimingWheel(wheel_size=2)
>>> entries = [TimerEntry(tick) for tick in (1, 3, 7)]
>>> [wheel.schedule(entry) for entry in entries]        # levels 0, 1 and 2: buckets 1, 2-3 and 4-7
[True, True, True]
>>> wheel.next_tick
1
>>> [entry.deadline_tick for entry in wheel.advance(2)]  # 1 is due; the bucket 2-3 begins: 3 cascades to level 0
[1]
>>> wheel.next_tick
3
>>> [entry.deadline_tick for entry in wheel.advance(100)]
[3, 7]

Known waste: a bucket emptied by cancelling stays until its range begins or `next_tick` finds it at the head of
the heap; a level has at most ``wheel_size + 1`` of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter

from purgatory_async.errors import refuse_again, refuse_copy
from purgatory_async.native import also_compiled
from purgatory_async.timing._entry import (
    LAST_TICK,
    Bucket,
    TimerEntry,
    TimerNode,
    check_tick_number,
    entries_of,
)
from purgatory_async.timing._queue import already_scheduled, check_limit, check_wheel_size

__all__ = ["TimerEntry", "TimingWheel", "WheelLevel"]

_Slots = dict[int, Bucket]
_Level = tuple[int, int, _Slots]


@dataclass(frozen=True, slots=True)
class WheelLevel:
    """A snapshot of one level of a `TimingWheel`.

    Attributes:
        ticks_per_bucket: The width of its buckets.
        buckets: The first tick and the number of entries of each non-empty bucket, in order of time.
    """

    ticks_per_bucket: int
    buckets: tuple[tuple[int, int], ...]


@also_compiled
class TimingWheel:
    """A `TimerQueue` for any mix of deadlines.

    Args:
        wheel_size: Buckets per level, at least 2. Kafka uses 20. With 256, a millisecond tick reaches 65 s on
            two levels, so an ordinary timeout moves at most once.
        start_tick: The present.

    Raises:
        ValueError: ``wheel_size`` is below 2.
        TypeError: ``wheel_size`` is no integer.
    """

    __slots__ = ("__weakref__", "_levels", "_starts", "_wheel_size", "now_tick")

    __reduce_ex__ = refuse_copy

    def __init__(self, wheel_size: int = 256, start_tick: int = 0) -> None:
        refuse_again(self, "_wheel_size")
        wheel_size = check_wheel_size(wheel_size)
        self.now_tick = check_tick_number("start_tick", start_tick)
        self._wheel_size = wheel_size
        # Finest first: (ticks per bucket, reach in ticks, buckets by the first tick of their range).
        self._levels: list[_Level] = [(1, wheel_size, {})]
        self._starts: list[int] = []  # heap; one push per new bucket of any level

    def __repr__(self) -> str:
        return f"<TimingWheel wheel_size={self._wheel_size} now_tick={self.now_tick} entries={len(self)}>"

    def __len__(self) -> int:
        """How many entries are scheduled. O(n): a counter would be a fifth of the cost of add and cancel."""
        return sum(1 for _, _, slots in self._levels for bucket in slots.values() for _ in entries_of(bucket))

    @property
    def wheel_size(self) -> int:
        """Buckets per level."""
        return self._wheel_size

    def levels(self) -> tuple[WheelLevel, ...]:
        """Return a snapshot of the levels that have entries, the finest first. O(n).

        >>> wheel = TimingWheel(wheel_size=256)
        >>> entries = [TimerEntry(tick) for tick in (30, 30, 300, 511, 70_000)]
        >>> [wheel.schedule(entry) for entry in entries]
        [True, True, True, True, True]
        >>> for level in wheel.levels():
        ...     print(level)
        WheelLevel(ticks_per_bucket=1, buckets=((30, 2),))
        WheelLevel(ticks_per_bucket=256, buckets=((256, 2),))
        WheelLevel(ticks_per_bucket=65536, buckets=((65536, 1),))
        """
        by_level = groupby(self.buckets(), itemgetter(0))
        return tuple(
            WheelLevel(width, tuple(sorted((start, count) for _, start, count in buckets)))
            for width, buckets in by_level
        )

    def buckets(self) -> Iterator[tuple[int, int, int]]:
        """Count the entries bucket by bucket, for a caller that lets other tasks run in between.

        Yields:
            Ticks per bucket, first tick and number of entries of each non-empty bucket, the finest level first,
            in O(its entries). Changes in between may be missed: emptied and new buckets are left out, and so may
            be entries that moved to a finer level.
        """
        found = [(width, *slot) for width, _, slots in self._levels for slot in slots.items()]
        for width, start, bucket in found:
            count = 0
            link = bucket._next
            if link is not None:  # else it was dropped
                while link is not bucket:
                    count += 1
                    link = link._next
            if count:
                yield width, start, count

    @property
    def bucket_count(self) -> int:
        """The number of buckets, empty ones that are not yet dropped included. O(levels)."""
        return sum(len(slots) for _, _, slots in self._levels)

    def insertions(self, deadline_tick: int, entered_tick: int, left_tick: int) -> int:
        """How often an entry was put into a bucket: once, and again per level that it came down. O(levels).

        Args:
            deadline_tick: The entry's deadline.
            entered_tick: ``now_tick`` when it was scheduled.
            left_tick: ``now_tick`` when it was cancelled or handed out.

        Raises:
            TypeError, ValueError: One of them is no integer, or out of the bounds of a tick.

        >>> TimingWheel(wheel_size=20).insertions(deadline_tick=450, entered_tick=0, left_tick=445)
        3
        """
        deadline_tick = check_tick_number("deadline_tick", deadline_tick)
        entered_tick = check_tick_number("entered_tick", entered_tick)
        left_tick = check_tick_number("left_tick", left_tick)
        width = 1
        moves = 0
        while deadline_tick - entered_tick >= width * self._wheel_size:
            width *= self._wheel_size
            moves += deadline_tick - deadline_tick % width <= left_tick
        return 1 + moves

    def schedule(self, entry: TimerNode) -> bool:
        """Add an entry; False if it is due already. O(1). See `TimerQueue.schedule`."""
        if entry._next is not None:
            raise already_scheduled(entry)
        tick = entry._tick
        delta = tick - self.now_tick
        if delta <= 0:
            return False
        for level in self._levels:
            if delta < level[1]:
                break
        else:
            level = self._add_levels(delta)
        width, _, slots = level
        start = tick - tick % width
        (slots.get(start) or self._new_bucket(slots, start)).append(entry)
        return True

    def cancel(self, entry: TimerNode) -> bool:
        """Remove an entry at once; False if it was not scheduled. O(1)."""
        following = entry._next
        if following is None:
            return False
        previous = entry._prev
        following._prev = previous
        previous._next = following
        entry._next = entry._prev = None  # type: ignore[assignment]  # `unlink`, without a call
        return True

    @property
    def next_tick(self) -> int | None:
        """When `advance` next has something to do; None when empty. Drops emptied buckets on the way."""
        starts = self._starts
        while starts:
            if self._holds(starts[0]):
                return starts[0]
        return None

    def advance(self, now_tick: int, limit: int | None = None) -> list[TimerNode]:
        """Move time forward and return due entries in order of deadline. See `TimerQueue.advance`."""
        budget = -1 if limit is None else check_limit(limit)
        if type(now_tick) is not int or not -LAST_TICK < now_tick <= LAST_TICK:
            now_tick = check_tick_number("now_tick", now_tick)
        if now_tick > self.now_tick:
            self.now_tick = now_tick
        else:
            now_tick = self.now_tick
        due: list[TimerNode] = []
        starts = self._starts
        finest = self._levels[0][2]
        while starts and starts[0] <= now_tick and budget:
            start = starts[0]
            # Coarse before fine: cascaded entries may belong to this tick, and they came first.
            if start % self._wheel_size == 0:  # only there can a coarser bucket begin
                for level in range(len(self._levels) - 1, 0, -1):
                    if start in self._levels[level][2]:
                        budget = self._cascade(level, start, budget)
            bucket = finest.get(start)
            if bucket is not None:
                budget = bucket.take(due, budget)
            self._holds(start)
        return due

    def check_invariants(self) -> None:
        """Assert that links, counts, places and the heap agree. O(n), for tests."""
        known = set(self._starts)
        for width, reach, slots in self._levels:
            for start, bucket in slots.items():
                bucket.check_invariants()
                assert start % width == 0, f"bucket {start} is off its level's grid of {width}"
                assert start in known, f"bucket {start} of {width} ticks is not in the heap"
                for entry in entries_of(bucket):
                    tick = entry.deadline_tick
                    assert start <= tick < start + width, f"tick {tick} is in bucket {start} of {width} ticks"
                    assert tick - self.now_tick < reach, (
                        f"tick {tick} is beyond the reach of its level, {reach}"
                    )

    def _add_levels(self, delta: int) -> _Level:
        """Add coarser levels until one reaches ``delta`` ticks, and return that one."""
        while delta >= self._levels[-1][1]:
            width = self._levels[-1][1]  # the last level's reach
            self._levels.append((width, width * self._wheel_size, {}))
        return self._levels[-1]

    def _new_bucket(self, slots: _Slots, start: int) -> Bucket:
        """Add a bucket to a level, for the range that begins at ``start``."""
        bucket = slots[start] = Bucket()
        heappush(self._starts, start)
        return bucket

    def _cascade(self, level: int, start: int, budget: int) -> int:
        """Move the entries of a coarse bucket one level down, within the budget; returns its rest.

        It goes from the back, each entry to the front of its new bucket: so the order of arrival holds, also against
        entries that were added there directly, and wherever the budget ends. It goes one level at a time, so that
        entries held back still meet those that went ahead.
        """
        bucket = self._levels[level][2][start]
        width, _, slots = self._levels[level - 1]
        entry = bucket._prev
        while entry is not bucket and budget:
            previous = entry._prev
            tick: int = entry._tick  # type: ignore[attr-defined]  # all but the bucket are entries
            place = tick - tick % width  # pyright: ignore[reportUnknownVariableType]
            (slots.get(place) or self._new_bucket(slots, place)).prepend(entry)  # type: ignore[arg-type]  # any entry
            entry = previous
            budget -= 1
        bucket._prev = entry
        entry._next = bucket
        return budget

    def _holds(self, start: int) -> bool:
        """Whether a bucket at ``start``, the head of the heap, has an entry; drops empty ones."""
        held = False
        for _, _, slots in self._levels:
            bucket = slots.get(start)
            if bucket is None:
                continue
            if bucket._next is not bucket:
                held = True
                continue
            del slots[start]
            bucket.drop()
            heappop(self._starts)  # each bucket has its own start in the heap
        return held

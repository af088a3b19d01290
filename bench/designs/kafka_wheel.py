"""Kafka's hierarchical timing wheel, ported trait for trait, to be measured beside the library's own.

What makes it Kafka's, each kept although the library does it differently:

- **Array of 20 slots, recursive levels.** A wheel has ``wheel_size`` buckets made with it. What is out of its
  reach goes to its overflow wheel, made on first need and kept, whose tick is this wheel's whole reach.
  Adding and advancing recurse from wheel to wheel.
- **A bucket is due at the start of its range.** An entry lands in the bucket of its deadline rounded down, so
  it expires early by up to one tick.
- **A delay queue of buckets, each queued once a lap.** `Bucket.set_expiration` tells whether the bucket has
  just been given a new range; only then it is pushed. A bucket emptied by cancelling stays queued until its
  time.
- **The clock moves by buckets.** The wheel advances to the expiration of the bucket that was taken from the
  queue, not to the present; after idling it lags, and a new entry cascades down through levels that are past.
- **Flush and re-add.** A due bucket is emptied from the front; each entry goes through `KafkaWheel.add` again
  from the lowest level, and lands in a finer bucket or, if it is refused there, expires.
- **A task and its entry are two objects.** The entry is made on every add and refers to its list; the task
  refers to the entry, and making a second entry for a task removes the first.
- **One shared counter** goes up on each link and down on each unlink, cascades included.

What is left out favours the port: no locks and no retries of a removal that races a cascade (there is one
thread here), no atomic integers, and no executor (`KafkaTimer.advance_clock` returns the tasks instead of
submitting them). The delay queue is `heapq` over tuples, which compare in C.

Times are integers of one unit, here milliseconds.
"""

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Bucket", "KafkaTask", "KafkaTimer", "KafkaWheel", "TaskEntry"]


class KafkaTask:
    """What a user hands in: a delay, and the entry that waits for it at present."""

    __slots__ = ("delay_ms", "entry")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.entry: TaskEntry | None = None

    def set_entry(self, entry: "TaskEntry") -> None:
        """Take a new entry; the one before it, if another, leaves its bucket."""
        if self.entry is not None and self.entry is not entry:
            self.entry.remove()
        self.entry = entry

    def cancel(self) -> None:
        """Leave the timer at once; nothing happens if it is in none."""
        if self.entry is not None:
            self.entry.remove()
            self.entry = None


class TaskEntry:
    """A node of a bucket's list: the absolute deadline, the neighbours and the list itself."""

    __slots__ = ("bucket", "expiration_ms", "next", "previous", "task")

    next: "TaskEntry"
    previous: "TaskEntry"

    def __init__(self, task: KafkaTask | None, expiration_ms: int) -> None:
        self.task = task
        self.expiration_ms = expiration_ms
        self.bucket: Bucket | None = None
        if task is not None:
            task.set_entry(self)

    @property
    def cancelled(self) -> bool:
        """Whether the task has left this entry."""
        return self.task is not None and self.task.entry is not self

    def remove(self) -> None:
        """Leave the bucket, if in one."""
        if self.bucket is not None:
            self.bucket.remove(self)


class Counter:
    """The number of entries linked anywhere in one timer."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Bucket:
    """A circular list with a sentinel, and the start of the range it stands for at present (-1: for none)."""

    __slots__ = ("_counter", "_root", "expiration_ms")

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._root = root = TaskEntry(None, -1)
        root.next = root.previous = root
        self.expiration_ms = -1

    def set_expiration(self, expiration_ms: int) -> bool:
        """Stand for the range that starts here; True if it stood for another one before."""
        changed = self.expiration_ms != expiration_ms
        self.expiration_ms = expiration_ms
        return changed

    def add(self, entry: TaskEntry) -> None:
        """Append an entry, taking it out of whatever list it is in."""
        entry.remove()
        root = self._root
        tail = root.previous
        entry.next = root
        entry.previous = tail
        entry.bucket = self
        tail.next = entry
        root.previous = entry
        self._counter.value += 1

    def remove(self, entry: TaskEntry) -> None:
        """Unlink an entry if it is in this list."""
        if entry.bucket is self:
            entry.next.previous = entry.previous
            entry.previous.next = entry.next
            entry.next = entry.previous = None  # type: ignore[assignment]  # read only while linked
            entry.bucket = None
            self._counter.value -= 1

    def flush(self, accept: Callable[[TaskEntry], None]) -> None:
        """Take the entries out from the front, giving each away; then stand for no range."""
        root = self._root
        while (head := root.next) is not root:
            self.remove(head)
            accept(head)
        self.expiration_ms = -1


class DelayQueue:
    """Buckets in order of expiration; equal ones in the order they were queued."""

    __slots__ = ("_heap", "_queued")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Bucket]] = []
        self._queued = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_expiration(self) -> int | None:
        """When the first bucket is due; None when no bucket is queued."""
        return self._heap[0][0] if self._heap else None

    def offer(self, bucket: Bucket) -> None:
        """Queue a bucket under its present expiration."""
        self._queued += 1
        heappush(self._heap, (bucket.expiration_ms, self._queued, bucket))

    def poll(self, now_ms: int) -> Bucket | None:
        """Take out the first bucket if it is due."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heappop(self._heap)[2]
        return None


class KafkaWheel:
    """One level, and through its overflow wheel all that are coarser.

    Args:
        tick_ms: Width of a bucket.
        wheel_size: Number of buckets.
        start_ms: The present; rounded down to the tick.
        counter: Shared by all levels.
        queue: Shared by all levels.
    """

    __slots__ = (
        "_buckets",
        "_counter",
        "_overflow",
        "_queue",
        "_reach_ms",
        "_tick_ms",
        "_wheel_size",
        "now_ms",
    )

    def __init__(
        self, tick_ms: int, wheel_size: int, start_ms: int, counter: Counter, queue: DelayQueue
    ) -> None:
        self._tick_ms = tick_ms
        self._wheel_size = wheel_size
        self._reach_ms = tick_ms * wheel_size
        self._counter = counter
        self._queue = queue
        self._buckets = [Bucket(counter) for _ in range(wheel_size)]
        self._overflow: KafkaWheel | None = None
        self.now_ms = start_ms - start_ms % tick_ms

    @property
    def levels(self) -> int:
        """How many levels there are from here up."""
        return 1 + (self._overflow.levels if self._overflow is not None else 0)

    def add(self, entry: TaskEntry) -> bool:
        """Put an entry into its bucket; False if it is cancelled or due, which the caller must tell apart."""
        expiration = entry.expiration_ms
        if entry.cancelled or expiration < self.now_ms + self._tick_ms:
            return False
        if expiration < self.now_ms + self._reach_ms:
            virtual_id = expiration // self._tick_ms
            bucket = self._buckets[virtual_id % self._wheel_size]
            bucket.add(entry)
            if bucket.set_expiration(virtual_id * self._tick_ms):
                self._queue.offer(bucket)
            return True
        if self._overflow is None:
            self._overflow = KafkaWheel(
                self._reach_ms, self._wheel_size, self.now_ms, self._counter, self._queue
            )
        return self._overflow.add(entry)

    def advance_clock(self, time_ms: int) -> None:
        """Move the clock to a time rounded down to the tick, here and above; less than a tick is no move."""
        if time_ms >= self.now_ms + self._tick_ms:
            self.now_ms = time_ms - time_ms % self._tick_ms
            if self._overflow is not None:
                self._overflow.advance_clock(self.now_ms)


class KafkaTimer:
    """The wheel with its delay queue, and a clock that is set by hand.

    Args:
        tick_ms: Width of a bucket of the lowest level.
        wheel_size: Buckets per level.
        start_ms: The present.
    """

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> None:
        self._counter = Counter()
        self._queue = DelayQueue()
        self.wheel = KafkaWheel(tick_ms, wheel_size, start_ms, self._counter, self._queue)
        self._expired: list[KafkaTask] = []

    def __len__(self) -> int:
        return self._counter.value

    @property
    def queued_buckets(self) -> int:
        """How many buckets are queued, emptied ones included."""
        return len(self._queue)

    @property
    def next_expiration(self) -> int | None:
        """When the next bucket is due; None when none is queued."""
        return self._queue.next_expiration

    def add(self, task: KafkaTask, now_ms: int) -> None:
        """Start the delay of a task now; one that is due comes with the next `advance_clock`."""
        self._add_or_expire(TaskEntry(task, task.delay_ms + now_ms))

    def advance_clock(self, now_ms: int) -> list[KafkaTask]:
        """Process every bucket that is due by now; returns the tasks that expired, in the order they did."""
        while (bucket := self._queue.poll(now_ms)) is not None:
            self.wheel.advance_clock(bucket.expiration_ms)
            bucket.flush(self._add_or_expire)
        expired, self._expired = self._expired, []
        return expired

    def _add_or_expire(self, entry: TaskEntry) -> None:
        if not self.wheel.add(entry) and not entry.cancelled and entry.task is not None:
            self._expired.append(entry.task)

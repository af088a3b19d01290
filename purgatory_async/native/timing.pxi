# Mirrors timing/. Links are typed: adding and removing an entry are pointer stores without a check.

from cpython.dict cimport PyDict_GetItemWithError
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.number cimport PyNumber_Index
from heapq import heappop, heappush

cdef extern from *:
    """
    #define NO_TICK INT64_MIN
    #define LAST_TICK ((int64_t)1 << 62)
    #define BEYOND INT64_MAX
    """
    const int64_t NO_TICK  # of an entry without a deadline, or of an empty queue
    const int64_t LAST_TICK
    const int64_t BEYOND  # a reach that no distance exceeds; a time out of bounds


cdef int64_t as_tick(str name, object tick) except? -1:
    cdef int beyond = 0
    cdef object number = PyNumber_Index(tick)
    cdef int64_t value = PyLong_AsLongLongAndOverflow(number, &beyond)
    if beyond or not -LAST_TICK < value <= LAST_TICK:
        from purgatory_async.timing._entry import check_tick_number
        check_tick_number(name, number)  # raises
    return value


@cython.cdivision(True)
cdef inline int64_t grid(int64_t tick, int64_t width) noexcept:
    """The last multiple of the width at or before a tick."""
    cdef int64_t rest = tick % width
    return tick - rest - (width if rest < 0 else 0)


@cython.trashcan(True)
cdef class Link:
    # `_next` and `_prev` for Python. A queue in Python may store any object there, which `Foreign` then holds.
    cdef Link next_link, prev_link

    @property
    def _next(self):
        return shown(self.next_link)

    @_next.setter
    def _next(self, value):
        self.next_link = as_link(value)

    @property
    def _prev(self):
        return shown(self.prev_link)

    @_prev.setter
    def _prev(self, value):
        self.prev_link = as_link(value)


cdef class Foreign(Link):
    cdef object value


cdef inline object shown(Link link):
    return (<Foreign> link).value if type(link) is Foreign else link


cdef Link as_link(object value):
    if value is None or isinstance(value, Link):
        return value
    cdef Foreign link = Foreign.__new__(Foreign)
    link.value = value
    return link


@cython.trashcan(True)
cdef class TimerNode(Link):
    cdef public int64_t _tick

    def __cinit__(self):
        self._tick = NO_TICK

    # The reaper calls this on an entry that is due; a twin overrides it to save the lookup.
    cdef bint fire(self) except -1:
        return self._expire()

    @property
    def deadline_tick(self):
        if self._tick == NO_TICK:
            raise AttributeError(f"{type(self).__name__} has no deadline_tick yet")
        return self._tick

    @deadline_tick.setter
    def deadline_tick(self, tick):
        self._tick = as_tick("deadline_tick", tick)


@cython.trashcan(True)
cdef class TimerEntry(TimerNode):
    cdef object __weakref__
    cdef public object payload

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, deadline_tick, payload=None):
        if self._tick != NO_TICK:
            refuse_again(self, "_tick")
        self._tick = as_tick("deadline_tick", deadline_tick)
        self.payload = payload
        self.next_link = None

    def __repr__(self):
        return _reprs[TimerEntry](self)


cdef inline void link_last(Bucket bucket, TimerNode entry) noexcept:
    cdef Link last = bucket.prev_link
    entry.next_link = bucket
    entry.prev_link = last
    last.next_link = entry
    bucket.prev_link = entry


# Where Python could have cut a link, that is an error instead of a crash.


@cython.nonecheck(True)
cdef inline bint unlink_entry(TimerNode entry) except -1:
    """Remove an entry that a wheel may hold from its bucket; returns whether it was in one."""
    cdef Link following = entry.next_link, previous = entry.prev_link
    if following is None:
        return False
    following.prev_link = previous
    previous.next_link = following
    entry.next_link = entry.prev_link = None
    return True


@cython.trashcan(True)
cdef class Bucket(Link):
    def __init__(self):
        refuse_again(self, "_next")
        self.next_link = self.prev_link = self

    @property
    def empty(self):
        return self.next_link is self

    def append(self, TimerNode entry not None):
        if self.prev_link is None:
            raise AttributeError("the bucket was dropped")
        link_last(self, entry)


cdef inline void link_first(Bucket bucket, TimerNode entry) noexcept:
    cdef Link first = bucket.next_link
    entry.next_link = first
    entry.prev_link = bucket
    first.prev_link = entry
    bucket.next_link = entry


@cython.nonecheck(True)
cdef int64_t take_from(Bucket bucket, list due, int64_t budget) except? -1:
    cdef Link entry = bucket.next_link, following
    while entry is not bucket and budget:
        following = entry.next_link
        due.append(entry)
        entry.next_link = entry.prev_link = None
        entry = following
        budget -= 1
    bucket.next_link = entry
    entry.prev_link = bucket
    return budget


cdef Py_ssize_t length_of(Bucket bucket) noexcept:
    cdef Link link = bucket.next_link
    cdef Py_ssize_t count = 0
    while link is not None and link is not bucket:
        count += 1
        link = link.next_link
    return count


cdef class TimingWheel:
    cdef object __weakref__
    cdef public int64_t now_tick
    cdef readonly object _wheel_size
    cdef int64_t size  # the same, or `BEYOND`
    # Of each level, the finest first: ticks per bucket, and the buckets by their first tick. A level reaches as far as
    # a bucket of the next one is wide.
    cdef int64_t[64] widths
    cdef list slots
    cdef readonly list _starts  # heap; one push per new bucket of any level

    def __cinit__(self):
        # A wheel of one bucket per tick, for an instance that is never initialised: the C code relies on the first level.
        self.size = BEYOND
        self.slots = []
        self._starts = []
        self.widths[0] = 1
        self.add_level()

    def __init__(self, wheel_size=256, start_tick=0):
        from purgatory_async.timing._queue import check_wheel_size
        refuse_again(self, "_wheel_size")
        wheel_size = check_wheel_size(wheel_size)
        self.now_tick = as_tick("start_tick", start_tick)
        self._wheel_size = wheel_size
        self.size = wheel_size if wheel_size < BEYOND else BEYOND
        self.slots = []
        self._starts = []
        self.add_level()

    def __repr__(self):
        return _reprs[TimingWheel](self)

    def __len__(self):
        cdef Py_ssize_t count = 0
        for slots in self.slots:
            for bucket in (<dict> slots).values():
                count += length_of(bucket)
        return count

    @property
    def _levels(self):
        return [(self.widths[level], self.widths[level + 1], slots) for level, slots in enumerate(self.slots)]

    def schedule(self, TimerNode entry not None):
        return self.add(entry)

    def cancel(self, TimerNode entry not None):
        return unlink_entry(entry)

    @property
    def next_tick(self):
        cdef int64_t tick = self.next_start()
        return None if tick == NO_TICK else tick

    def advance(self, now_tick, limit=None):
        if limit is None:
            return self.take_due(as_tick("now_tick", now_tick), -1)
        from purgatory_async.timing._queue import check_limit
        budget = check_limit(limit)
        return self.take_due(as_tick("now_tick", now_tick), budget if budget < BEYOND else -1)

    # For C.

    cdef bint add(self, TimerNode entry) except -1:
        """Add an entry; False if it is due already."""
        if entry.next_link is not None:
            from purgatory_async.timing._queue import already_scheduled
            raise already_scheduled(entry)
        if entry._tick <= self.now_tick:
            entry.deadline_tick  # raises if it has none
            return False
        cdef int64_t distance = entry._tick - self.now_tick
        cdef Py_ssize_t level = 0
        while distance >= self.widths[level + 1] != BEYOND:
            level += 1
            if level == len(self.slots):
                self.add_level()
        link_last(self.bucket_at(level, entry._tick), entry)
        return True

    cdef int add_level(self) except -1:
        cdef Py_ssize_t level = len(self.slots)
        cdef int64_t width = self.widths[level]
        self.widths[level + 1] = width * self.size if self.size <= BEYOND // width else BEYOND
        self.slots.append({})

    cdef Bucket bucket_at(self, Py_ssize_t level, int64_t tick):
        """Return a level's bucket for a tick, a new one if needed."""
        cdef dict slots = <dict> self.slots[level]
        cdef object start = tick if level == 0 else grid(tick, self.widths[level])
        cdef PyObject *found = PyDict_GetItemWithError(slots, start)
        if found is not NULL:
            return <Bucket> found
        cdef Bucket bucket = Bucket.__new__(Bucket)
        bucket.next_link = bucket.prev_link = bucket
        slots[start] = bucket
        heappush(self._starts, start)
        return bucket

    cdef int64_t next_start(self) except? -1:
        """The next tick for `take_due`, or `NO_TICK`."""
        while self._starts:
            if self.holds(self._starts[0]):
                return self._starts[0]
            heappop(self._starts)
        return NO_TICK

    cdef list take_due(self, int64_t now_tick, int64_t budget):
        """Move time forward; returns due entries, at most the budget unless that is negative."""
        cdef list due = []
        cdef int64_t start
        cdef Py_ssize_t level
        cdef dict finest = <dict> self.slots[0]
        cdef object key
        cdef PyObject *bucket
        if now_tick > self.now_tick:
            self.now_tick = now_tick
        else:
            now_tick = self.now_tick
        while self._starts and budget:
            key = self._starts[0]
            start = key
            if start > now_tick:
                break
            # Coarse before fine: cascaded entries may belong to this tick, and they came first.
            if grid(start, self.size) == start:  # only there can a coarser bucket begin
                for level in range(len(self.slots) - 1, 0, -1):
                    if key in <dict> self.slots[level]:
                        budget = self._cascade(level, start, budget)
            bucket = PyDict_GetItemWithError(finest, key)
            if bucket is not NULL:
                budget = take_from(<Bucket> bucket, due, budget)
            if not self.holds(key):
                heappop(self._starts)
        return due

    @cython.nonecheck(True)
    cpdef int64_t _cascade(self, Py_ssize_t level, int64_t start, int64_t budget) except? -2:
        """Move the entries of a coarse bucket one level down, within the budget; returns its rest."""
        if not 0 < level < len(self.slots):
            raise IndexError(f"level must be from 1 to {len(self.slots) - 1}, got {level}")
        cdef Bucket bucket = <Bucket> (<dict> self.slots[level])[start]
        cdef Link entry = bucket.prev_link, previous
        while entry is not bucket and budget:
            previous = entry.prev_link
            link_first(self.bucket_at(level - 1, (<TimerNode?> entry)._tick), <TimerNode> entry)
            entry = previous
            budget -= 1
        bucket.prev_link = entry
        entry.next_link = bucket
        return budget

    cdef bint holds(self, object start) except -1:
        """Whether a bucket at the head of the heap has an entry; drops empty ones."""
        cdef Py_ssize_t held = 0, dropped = 0
        cdef Bucket bucket
        cdef PyObject *found
        for slots in self.slots:
            found = PyDict_GetItemWithError(<dict> slots, start)
            if found is NULL:
                continue
            bucket = <Bucket> found
            if bucket.next_link is not bucket:
                held += 1
                continue
            del (<dict> slots)[start]
            bucket.next_link = bucket.prev_link = None
            dropped += 1
        # Each bucket has its own start in the heap; the caller removes the last one.
        for _ in range(dropped if held else dropped - 1):
            heappop(self._starts)
        return held > 0

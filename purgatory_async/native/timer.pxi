# Mirrors loop/: ownership, timer_handle, reaper and scheduler. Ordinary delays on a timer in use stay in C. A limit, a
# clock far from its origin, a past deadline and a refusal go to the methods taken over from the reference.

from contextvars import Context

from purgatory_async.clock import MonotonicClock, TickScale
from purgatory_async.errors import check_callback, check_result

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    static int64_t monotonic_now(void) { PyTime_t now = 0; (void)PyTime_MonotonicRaw(&now); return now; }
    #else
    #define monotonic_now() ((int64_t)_PyTime_GetMonotonicClock())
    #endif
    static int is_plain(PyObject *callable) {  /* a function that is not async */
        if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
        return PyFunction_Check(callable)
            && !(((PyCodeObject *)PyFunction_GET_CODE(callable))->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR));
    }
    """
    int64_t monotonic_now() noexcept  # of `MonotonicClock`, without the object
    bint is_plain(object callable) noexcept

cdef extern from "Python.h":
    object PyContext_CopyCurrent()
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1
    unsigned long PyThread_get_thread_ident() noexcept

cdef extern from "math.h" nogil:
    long long llrint(double number) noexcept

cdef enum:
    SLICE = 256  # as in loop/wakeups
    PASS_NS = 1_000_000  # as in loop/reaper
cdef double MAX_TIMEOUT = 3_155_760_000.0  # as in clock


# Ownership.


cdef class Elsewhere:
    cdef unsigned long ident
    cdef object is_running

    def __init__(self, loop):
        self.ident = PyThread_get_thread_ident()
        self.is_running = loop.is_running

    @property
    def _thread_id(self):
        return self.ident if self.is_running() else None

    cdef bint _is_here(self) except -1:
        return self.ident == PyThread_get_thread_ident() and self.is_running()


cdef inline bint is_here(object runner) except -1:
    """Whether the calling thread runs an owner: a loop of asyncio, or a stand-in."""
    if type(runner) is Elsewhere:
        return (<Elsewhere> runner)._is_here()
    cdef object ident = runner._thread_id
    return ident is not None and <unsigned long> ident == PyThread_get_thread_ident()


# Handles.


@cython.trashcan(True)
cdef class TimerHandle(TimerNode):
    cdef object __weakref__
    cdef Scheduler timer  # None once it has ended
    cdef bint has_fired
    cdef public object _callback, _context
    cdef public tuple _args
    cdef public double _when

    def __init__(self, Scheduler home not None, callback, tuple args not None):
        if self.timer is not None or self.has_fired or self._tick != NO_TICK:
            refuse_again(self, "_home")
        fill_handle(self, home, callback, args)

    def __repr__(self):
        return _reprs[TimerHandle](self)

    @property
    def _home(self):
        return self.has_fired if self.timer is None else self.timer

    @_home.setter
    def _home(self, home):
        self.timer = home if isinstance(home, Scheduler) else None
        self.has_fired = home is True

    def cancel(self):
        cdef Scheduler timer = self.timer
        if timer is None:
            return False
        self.timer = None
        self._callback = self._args = self._context = None
        if not timer.withdraw(self):
            timer._never.discard(self)
        return True

    def reschedule(self, delay):
        cdef Scheduler timer = self.timer
        if timer is None:
            return False
        if ordinary(delay) and timer.is_ready() and is_here(timer._runner):
            if not timer.withdraw(self):
                timer._never.discard(self)
            if timer.start_handle(self, delay):
                return True
        timer._restart(self, delay)
        return True

    cdef bint fire(self) except -1:
        callback, context = self._callback, self._context
        cdef tuple args = self._args
        if callback is None or args is None:
            return False
        self.timer = None
        self.has_fired = True
        self._callback = self._args = self._context = None
        try:
            if context is None:
                context = Context()
            PyContext_Enter(context)
            try:
                returned = callback(*args)
            finally:
                PyContext_Exit(context)
            if returned is not None:
                check_result("callback", callback, returned)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exception:
            from purgatory_async.core.reports import report
            report(f"timer callback {callback!r} raised", exception, self)
        return True


cdef inline int fill_handle(TimerHandle handle, Scheduler timer, object callback, tuple args) except -1:
    if not is_plain(callback):
        check_callback("callback", callback)
    handle.timer = timer
    handle._callback = callback
    handle._args = args
    cdef object context = PyContext_CopyCurrent()
    handle._context = context if len(context) else None  # do not keep an empty one
    return 0


# Firing.


cdef class Reaper:
    cdef object __weakref__
    cdef public object _loop, _runner, _queue, _clock, _wakeup, _hurry, _scale, _slice, _firing, _soon
    cdef public set _pending_ids, _never
    cdef public bint closed, _exact, _hurried
    cdef public int64_t _tick_ns, _armed_tick, _wakeup_tick
    cdef TimingWheel wheel  # the queue, if it is exactly that
    cdef bint monotonic  # the clock counts as `MonotonicClock`
    cdef int64_t base_ns, base_tick  # a tick and its start
    # Until this time, the last delay ends in the last tick and bucket. No pass has run since they were stored, so the
    # tick is not before the armed one, and the bucket has not begun to cascade.
    cdef int64_t same_until_ns

    def __init__(self, tick_ns, queue, clock, *, counted):
        from purgatory_async.loop.ownership import NOT_YET
        refuse_again(self, "_queue")
        self._tick_ns = tick_ns
        self._queue = queue
        self.wheel = queue if type(queue) is TimingWheel else None
        self._pending_ids = set() if counted else None
        self._runner = NOT_YET
        self._wakeup_tick = self._armed_tick = LAST_TICK
        self._slice = SLICE
        self._soon = _reference("loop.reaper", "PastDeadlines")()
        self._firing = deque()
        self._never = set()
        self.same_until_ns = -BEYOND
        if clock is not None:
            self._use(clock)

    def _use(self, clock):
        self._clock = clock
        self.monotonic = clock.time_ns is MonotonicClock.time_ns
        self._exact = not getattr(clock, "needs_loop", True)
        self._slice = getattr(clock, "slice", None) if self._exact else SLICE
        self._scale = TickScale(self._tick_ns, clock.time_ns(), self._queue.now_tick)
        self.base_tick = as_tick("now_tick", self._queue.now_tick)
        base_ns = self._scale.tick_start_ns(self.base_tick)
        self.base_ns = base_ns if -(LAST_TICK >> 2) <= base_ns <= LAST_TICK else BEYOND
        self.same_until_ns = -BEYOND

    def _pass(self):
        cdef int64_t began_ns = self.now(), now_tick, next_tick
        cdef bint exact = self._exact, fired
        self.same_until_ns = -BEYOND
        if began_ns == BEYOND:
            return self._pass_from(self._now_ns())
        now_tick = next_tick = self.elapsed(began_ns)
        if not exact:
            self._armed_tick = 1 - LAST_TICK  # what is added during a pass is armed at its end
        self.take(now_tick, -1 if self._slice is None else <int64_t> self._slice)
        try:
            if exact:
                self.finish_pass(now_tick, self.next_tick())  # before a callback moves the clock
            fired = self.fire_taken()
            next_tick = self.next_tick()
            while not exact and NO_TICK < next_tick <= now_tick and 0 < self.now() - began_ns < PASS_NS:
                self.take(now_tick, SLICE)
                fired |= self.fire_taken()
                next_tick = self.next_tick()
        finally:
            self.finish_pass(now_tick, next_tick)
            if self._firing:
                self._pass_soon()  # after an interrupt; these come first
        return fired

    # For C.

    cdef int64_t now(self) except? -1:
        """The present; or `BEYOND`, if not all deadlines have 64 bits counted from it: then the reference counts."""
        if self.monotonic:
            return monotonic_now()
        cdef int beyond = 0
        cdef int64_t now_ns = PyLong_AsLongLongAndOverflow(self._clock.time_ns(), &beyond)
        if beyond or self.base_ns == BEYOND or not -(LAST_TICK >> 2) <= now_ns <= LAST_TICK:
            return BEYOND
        return now_ns

    @cython.cdivision(True)
    cdef int64_t elapsed(self, int64_t now_ns) noexcept:
        """The last tick that has started."""
        return self.base_tick + grid(now_ns - self.base_ns, self._tick_ns) // self._tick_ns

    cdef int64_t next_tick(self) except? -1:
        """The queue's next tick, or `NO_TICK`."""
        if self.wheel is not None:
            return self.wheel.next_start()
        cdef object tick = self._queue.next_tick
        return NO_TICK if tick is None else <int64_t> tick

    cdef int start(self, TimerNode entry, int64_t now_ns, int64_t delay_ns) except -1:
        """Schedule an entry after a positive delay."""
        cdef int64_t deadline_ns = now_ns + delay_ns
        entry._tick = self.elapsed(deadline_ns + self._tick_ns - 1)
        if entry._tick < self._armed_tick:
            self._start_earliest(entry, now_ns, deadline_ns)
        elif not (self._queue.schedule(entry) if self.wheel is None else self.wheel.add(entry)):
            self._start_now(entry, deadline_ns)  # the clock has gone back
        return 0

    cdef bint withdraw(self, TimerNode entry) except -1:
        """Remove an entry from the queue and the count; returns whether the queue held it."""
        cdef bint queued = self._queue.cancel(entry) if self.wheel is None else unlink_entry(entry)
        if self._pending_ids is not None:
            self._pending_ids.discard(<size_t> <PyObject *> entry)
        if queued and self._exact:
            self._arm()
        return queued

    cdef int take(self, int64_t now_tick, int64_t limit) except -1:
        """Take out due entries, in order of deadline."""
        cdef object most = None if limit < 0 else limit
        due = self._queue.advance(now_tick, most) if self.wheel is None else self.wheel.take_due(now_tick, limit)
        if self._soon and not (self._exact and limit >= 0 and (due or NO_TICK < self.next_tick() <= now_tick)):
            self._soon.move_to(due, most)
        self._firing.extend(due)
        return 0

    cdef bint fire_taken(self) except -1:
        """Fire the entries taken out, in order; returns whether any did."""
        cdef object firing = self._firing, popleft = firing.popleft
        cdef TimerNode entry
        cdef bint fired = False
        while firing:
            entry = popleft()
            if self._exact and firing:
                self._pass_soon()
            if entry.next_link is not None or entry.prev_link is not None:
                continue  # rescheduled by an earlier one
            if self._pending_ids is not None:
                self._pending_ids.discard(<size_t> <PyObject *> entry)
            if entry.fire():
                fired = True
        return fired

    cdef int finish_pass(self, int64_t now_tick, int64_t next_tick) except -1:
        """Arm for the remaining entries, or run another pass soon if some are due."""
        if self.closed:
            return 0
        if NO_TICK < next_tick <= now_tick:
            self._pass_soon()  # the limit held some back; entries added until then need no arming
        else:
            self._arm_for(None if next_tick == NO_TICK else next_tick)
        if self._soon:
            self._pass_soon()
        elif self._exact and not self._firing and not NO_TICK < next_tick <= now_tick:
            self._calm()
        return 0


# Starting.


cdef inline double ordinary(object delay) except? -1:
    """A delay in seconds that needs no further check, or zero."""
    cdef double seconds
    cdef int beyond = 0
    if type(delay) is float:
        seconds = <double> delay
    elif type(delay) is int:
        seconds = <double> PyLong_AsLongLongAndOverflow(delay, &beyond)  # -1 if beyond
    else:
        return 0
    return seconds if 0 < seconds <= MAX_TIMEOUT else 0


cdef class Scheduler(Reaper):
    cdef public object _max_pending
    # The last ordinary delay, and where it ended: most timers have few distinct ones, and many start within a tick.
    cdef double last_delay
    cdef int64_t last_delay_ns, last_tick
    cdef Bucket last_bucket

    def __init__(self, tick_ns, queue, clock, max_pending):
        Reaper.__init__(self, tick_ns, queue, clock, counted=max_pending is not None)
        self._max_pending = max_pending

    def call_later(self, delay, callback, *args):
        cdef TimerHandle handle = TimerHandle.__new__(TimerHandle)
        fill_handle(handle, self, callback, args)
        if not self.start_handle(handle, delay):
            self._start_handle(handle, self._admit("delay", delay))
        return handle

    def _start_ordinary(self, TimerNode entry not None, delay):
        cdef double seconds = ordinary(delay)
        if seconds == 0 or not self.is_ready() or not is_here(self._runner):
            return None
        cdef int64_t now_ns = self.start_ordinary(entry, seconds)
        return None if now_ns == BEYOND else now_ns

    # For C.

    cdef bint is_ready(self) noexcept:
        """Whether it is open, without a limit, and has a clock."""
        return not self.closed and self._pending_ids is None and self._clock is not None

    cdef bint start_handle(self, TimerHandle handle, object delay) except -1:
        """Start a callback's delay; False, and nothing was started, if the reference must."""
        cdef double seconds = ordinary(delay)
        if seconds == 0 or not self.is_ready() or not is_here(self._runner):
            return False
        cdef int64_t now_ns = self.start_ordinary(handle, seconds)
        if now_ns == BEYOND:
            return False
        handle._when = <double> (now_ns + self.last_delay_ns) / 1e9
        return True

    cdef int64_t start_ordinary(self, TimerNode entry, double seconds) except? -1:
        """Start an ordinary delay; returns the present in nanoseconds, or `BEYOND` if nothing was started."""
        cdef int64_t now_ns = self.now()
        if now_ns == BEYOND:
            return BEYOND
        if seconds != self.last_delay:
            self.last_delay = seconds
            self.last_delay_ns = max(1, llrint(seconds * 1e9))
        elif now_ns <= self.same_until_ns and self.last_bucket.prev_link is not None:  # not dropped
            entry._tick = self.last_tick
            link_last(self.last_bucket, entry)
            return now_ns
        self.start(entry, now_ns, self.last_delay_ns)
        # An entry goes to the end of its bucket, so its next link is the bucket.
        if self.wheel is not None and type(entry.next_link) is Bucket:
            self.last_bucket = <Bucket> entry.next_link
            self.last_tick = entry._tick
            self.same_until_ns = self.base_ns + (entry._tick - self.base_tick) * self._tick_ns - self.last_delay_ns
        else:
            self.same_until_ns = -BEYOND
        return now_ns

    # An operation's deadline. Its purgatory has checked the loop.

    cdef int _start_deadline(self, TimerNode operation, object timeout) except -1:
        """`_start_timeout`, where it does not matter since when it counts."""
        cdef double seconds = ordinary(timeout)
        if not seconds or not self.is_ready() or self.start_ordinary(operation, seconds) == BEYOND:
            self._start_timeout(operation, timeout)
        return 0

    cdef bint _restart_ordinary(self, TimerNode operation, object timeout) except -1:
        """`_restart_timeout`, where it does not matter since when it counts; False, and nothing changed, if it must."""
        cdef double seconds = ordinary(timeout)
        if not seconds or not self.is_ready() or not is_here(self._runner) or self.now() == BEYOND:
            return False
        self.withdraw(operation)
        self.start_ordinary(operation, seconds)
        return True

    cdef bint _unschedule(self, TimerNode operation) except -1:
        """Forget it; returns whether the queue held it."""
        return self.withdraw(operation)

"""The scheduler: admits delays, and starts callbacks and operations' deadlines with them."""

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable
from math import inf
from threading import get_ident

from purgatory_async.clock import MAX_TIMEOUT, NUMBERS, Clock, as_number, delay_to_ns, delay_until_ns
from purgatory_async.errors import PurgatoryClosed, PurgatoryFull
from purgatory_async.loop.reaper import FOREVER, LONG_AGO, Reaper
from purgatory_async.loop.timer_handle import TimerHandle
from purgatory_async.native import also_compiled
from purgatory_async.timing import TimerQueue, TimingWheel
from purgatory_async.timing._entry import Bucket, TimerNode


@also_compiled
class Scheduler(Reaper):
    """Starts delays; base of `Timer`.

    Args:
        tick_ns: Nanoseconds per tick.
        queue: Orders the entries.
        clock: None if the first loop decides.
        max_pending: Limit of pending entries.
    """

    __slots__ = ("_last_bucket", "_last_delay", "_last_delay_ns", "_last_tick", "_max_pending")

    # Where the last ordinary delay ended: most timers have few distinct delays, and many start within a tick.
    _last_bucket: Bucket
    _last_tick: int

    def __init__(self, tick_ns: int, queue: TimerQueue, clock: Clock | None, max_pending: int | None) -> None:
        super().__init__(tick_ns, queue, clock, counted=max_pending is not None)
        self._max_pending = max_pending
        self._last_delay: float = 0.0  # compared by identity: True is not 1.0
        self._last_delay_ns = 0

    # Implemented by `Timer`.

    def _adopt(self, running: AbstractEventLoop | None) -> None:
        """Bind to the running loop, or refuse another than the bound one."""
        raise NotImplementedError(f"the subclass binds {self!r}")

    def time_ns(self) -> int:
        """The present in nanoseconds, also before the first use."""
        raise NotImplementedError(f"the subclass knows the first clock of {self!r}")

    # Starting callbacks.

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """Call ``callback(*args)`` after a delay, in a copy of the present context. O(1).

        Args:
            delay: Seconds. Zero and less: on the next loop turn, the earliest time first. ``inf``: never.
            callback: A plain function. Its exception goes to the loop's exception handler.
            *args: The callback's arguments.

        Returns:
            A handle to cancel or reschedule it.

        Raises:
            TypeError: ``delay`` is no number, or ``callback`` cannot be called or is async.
            ValueError: ``delay`` is NaN, ``-inf``, or above 100 years.
            PurgatoryFull: ``max_pending`` are pending.
            PurgatoryClosed: The timer is closed.
            PurgatoryError: The clock needs a running event loop and none runs, or not the timer's.
        """
        handle = TimerHandle(self, callback, args)
        now_ns = self._start_ordinary(handle, delay)
        if now_ns is None:
            self._start_handle(handle, self._admit("delay", delay))
        else:
            handle._when = (now_ns + self._last_delay_ns) / 1e9
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """Call ``callback(*args)`` at a time of this timer's `time`; as `call_later` otherwise.

        Args:
            when: Seconds on this timer's clock, at most 100 years from now; in the past: on the next loop turn,
                the earliest time first. ``inf``: never.
            callback: A plain function.
            *args: The callback's arguments.
        """
        handle = TimerHandle(self, callback, args)
        now_ns = self.time_ns()
        delay_ns = delay_until_ns(when, now_ns)
        if type(when) not in NUMBERS:
            when = as_number("when", when)
        self._enter("when", when)
        self._start(handle, delay_ns, now_ns)
        # An int may be too large for a float.
        handle._when = when if type(when) is float else float(max(when, -MAX_TIMEOUT))
        return handle

    # Admission.

    def _admit(self, name: str, delay: float, *, unlimited: bool = False) -> int | None:
        """Check that a delay can start here and now; returns it in nanoseconds, None for never."""
        delay_ns = delay_to_ns(name, delay)
        self._enter(name, delay, unlimited=unlimited)
        return delay_ns

    def _enter(self, name: str, delay: float, *, unlimited: bool = False) -> None:
        """Refuse if the timer is closed, full or on another loop."""
        if self.closed:
            raise PurgatoryClosed(f"timer is closed: cannot schedule {name}={delay} s")
        if self._pending_ids is not None and not unlimited:
            pending = len(self._pending_ids)
            if pending >= (self._max_pending or 0):
                raise PurgatoryFull(
                    f"the timer is full: {pending} are pending, max_pending is {self._max_pending}",
                    limit=self._max_pending,
                )
        if get_ident() != self._runner._thread_id:
            self._adopt(_get_running_loop())

    def _start_ordinary(self, entry: TimerNode, delay: float) -> int | None:
        """Start a delay that needs no further check; returns the present in nanoseconds, None if it needs one."""
        again = delay is self._last_delay
        if not again and not (type(delay) in NUMBERS and 0 < delay <= MAX_TIMEOUT):
            return None
        if self.closed or self._pending_ids is not None or get_ident() != self._runner._thread_id:
            return None
        now_ns: int = self._clock.time_ns()  # type: ignore[union-attr]  # a loop runs it, so it has a clock
        if not again:
            self._last_delay = delay
            self._last_delay_ns = round(delay * 1e9) or 1
        elif now_ns <= self._same_until_ns and self._last_bucket._prev is not None:  # not dropped
            entry._tick = self._last_tick
            self._last_bucket.append(entry)
            return now_ns
        self._same_until_ns = LONG_AGO
        self._start(entry, self._last_delay_ns, now_ns)
        bucket = entry._next  # an entry goes to the end of its bucket
        if again and type(bucket) is Bucket and type(self._queue) is TimingWheel:
            self._last_bucket = bucket
            self._last_tick = entry._tick
            self._same_until_ns = self._scale.tick_start_ns(entry._tick) - self._last_delay_ns
        return now_ns

    def _start_handle(self, handle: TimerHandle, delay_ns: int | None) -> None:
        """Start the admitted delay of a callback, from now on."""
        now_ns = self._now_ns()
        self._start(handle, delay_ns, now_ns)
        handle._when = inf if delay_ns is None else (now_ns + delay_ns) / 1e9

    def _start_timeout(self, operation: TimerNode, timeout: float) -> int | None:
        """Start an operation's deadline.

        Returns:
            The present in nanoseconds, from which the deadline counts; None without a deadline.
        """
        now_ns = self._start_ordinary(operation, timeout)
        if now_ns is not None or timeout == inf:
            return now_ns
        delay_ns = self._admit("timeout", timeout)
        now_ns = self._now_ns()
        self._start(operation, delay_ns, now_ns)
        return now_ns

    def _restart_timeout(self, operation: TimerNode, timeout: float | None) -> int | None:
        """Move an operation's deadline, or raise and change nothing; one that has a deadline needs no room.

        Returns:
            The present in nanoseconds, from which the deadline counts; None without a deadline.
        """
        if timeout is None or timeout == inf:
            self._withdraw(operation)
            operation._prev = FOREVER  # a pass that has taken it out skips it
            return None
        counted = self._pending_ids is not None and id(operation) in self._pending_ids
        delay_ns = self._admit("timeout", timeout, unlimited=counted)
        now_ns = self._now_ns()
        self._withdraw(operation)
        self._start(operation, delay_ns, now_ns)
        return now_ns

    def _restart(self, handle: TimerHandle, delay: float) -> None:
        delay_ns = self._admit("delay", delay, unlimited=True)
        if not self._withdraw(handle):
            self._never.discard(handle)
        self._start_handle(handle, delay_ns)

    def _call_unlimited(self, delay: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """Like `call_later`, without ``max_pending``."""
        handle = TimerHandle(self, callback, args)
        self._start_handle(handle, self._admit("timeout", delay, unlimited=True))
        return handle

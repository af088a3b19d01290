"""The timer: callbacks, sleeps and deadlines on a timing wheel, with one wakeup of the event loop."""

import asyncio
from asyncio import _get_running_loop
from collections.abc import Callable
from contextvars import copy_context
from math import inf
from threading import get_ident
from types import FunctionType
from typing import Final, cast

from purgatory_async.clock import (
    MAX_TIMEOUT,
    Clock,
    MonotonicClock,
    check_delay,
    check_tick,
    delay_until_ns,
    seconds_to_ns,
)
from purgatory_async.errors import CO_COROUTINE, PurgatoryClosed, PurgatoryFull, check_callback, check_limit
from purgatory_async.loop.reaper import LONG_AGO, NEVER, Reaper, Timed
from purgatory_async.loop.timer_handle import Sleeper, TimerHandle
from purgatory_async.loop.wakeups import dispatcher_of
from purgatory_async.timing import TimerQueue, TimingWheel
from purgatory_async.timing._entry import Bucket, Link, TimerNode

__all__ = ["Timer"]

_new_handle: Final = TimerHandle.__new__
_NOWHERE: Final = Bucket()
_NOWHERE.drop()  # like every bucket that a queue has dropped
_NO_DELAY: Final = float("nan")  # an object that no caller has


class Timer(Reaper):
    """Callbacks after a delay, on a timing wheel with one wakeup of the event loop.

    It belongs to the loop that runs at its first use; with a clock that needs none (as
    `purgatory_async.testing.ManualClock`) it works without a loop.

    Args:
        tick: Resolution in seconds, from a microsecond to a day. A callback never fires early, and never later
            than one tick plus one loop turn plus the time for which the loop was blocked.
        queue: An empty `TimerQueue`; a `TimingWheel` if not given.
        clock: The source of time; if not given, a virtual loop's own time or the monotonic clock.
        max_pending: Limit of pending callbacks and deadlines; None for no limit.

    Raises:
        TypeError, ValueError: An argument is out of its bounds.
    """

    __slots__ = (
        "_last_bucket",
        "_last_delay",
        "_last_delay_ns",
        "_last_tick",
        "_max_pending",
        "_open",
    )

    def __init__(
        self,
        *,
        tick: float = 0.001,
        queue: TimerQueue | None = None,
        clock: Clock | None = None,
        max_pending: int | None = None,
    ) -> None:
        tick_ns = check_tick(tick)
        check_limit("max_pending", max_pending)
        if queue is not None and len(queue):
            raise ValueError(f"queue must be empty, got {queue!r}")
        queue = TimingWheel() if queue is None else queue
        super().__init__(tick_ns, queue, clock, counted=max_pending is not None)
        self._max_pending = max_pending
        self._open = False  # in use, not limited, not closed: safe to skip the checks of an ordinary delay
        # The last delay (by identity, so True does not match 1.0), the tick of its last deadline and that tick's
        # bucket, until `_same_until_ns`: most timers have few distinct timeouts, and many start within a tick.
        # Checking and converting a delay costs as much as scheduling; and all deadlines of a tick share one int.
        self._last_delay = _NO_DELAY
        self._last_delay_ns = 0
        self._last_tick = 0
        self._last_bucket: Link = _NOWHERE

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"pending={self.pending}"
        return f"<Timer tick={self._tick_ns / 1e9} {state} queue={self._queue!r}>"

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
        # `TimerHandle(self, callback, args)`, inlined: its __init__ would be a fifth of the whole call (python -m
        # bench.core --only timer).
        if type(callback) is not FunctionType or callback.__code__.co_flags & CO_COROUTINE:
            check_callback("callback", callback)
        handle = _new_handle(TimerHandle)
        handle._home = self
        handle._callback = callback
        handle._args = args
        handle._context = copy_context() or None
        handle._next = None  # type: ignore[assignment]  # in no bucket
        if get_ident() != self._runner._thread_id:
            handle._when = self._begin(handle, self._admit("delay", delay))
        elif delay is self._last_delay:
            handle._when = self._start_again(handle) + self._last_delay_ns
        elif self._remember(delay):
            handle._when = self._start(handle, self._last_delay_ns)
        else:
            handle._when = self._begin(handle, self._admit("delay", delay))
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
        self._enter("when", when)
        self._begin(handle, delay_ns, now_ns)
        handle._when = (
            when if type(when) is float else float(max(when, -MAX_TIMEOUT))
        )  # an int may be too large
        return handle

    async def sleep(self, delay: float) -> None:
        """Suspend the calling task for a delay, on this timer's clock.

        Args:
            delay: Seconds; zero and less lets the loop turn once.

        Raises:
            PurgatoryClosed: The timer is closed, or closed during the sleep.
            TypeError, ValueError, PurgatoryFull, PurgatoryError: As for `call_later`.
        """
        delay_ns = self._admit("delay", delay)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        sleeper = Sleeper(self, future, dispatcher_of(loop).wake)
        sleeper._when = self._begin(sleeper, delay_ns)
        try:
            await future
        finally:
            sleeper.cancel()
        if not sleeper.fired:
            raise PurgatoryClosed(f"timer was closed during a sleep of {delay} s")

    # Reading.

    def time(self) -> float:
        """The present in seconds on this timer's clock."""
        return self.time_ns() / 1e9

    def time_ns(self) -> int:
        """The present in nanoseconds on this timer's clock."""
        if self._clock is not None:
            return self._time_ns()
        running: object = _get_running_loop()
        return running.time_ns() if isinstance(running, Clock) else MonotonicClock.time_ns()

    @property
    def clock(self) -> Clock | None:
        """Its source of time; None before its first use if none was given."""
        return self._clock

    @property
    def queue(self) -> TimerQueue:
        """The queue of its deadlines, for reading only."""
        return self._queue

    @property
    def tick(self) -> float:
        """Its resolution in seconds."""
        return self._tick_ns / 1e9

    @property
    def pending(self) -> int:
        """Pending callbacks, sleeps and operations' deadlines. O(1) with ``max_pending``, else O(n)."""
        return self._counted_out() if self._pending_ids is None else len(self._pending_ids)

    @property
    def next_deadline(self) -> float | None:
        """When the timer next wakes, in seconds on its clock; None when idle.

        At most one tick after the earliest deadline; it may be earlier, when entries move between levels.
        """
        if self._clock is None:
            return None
        due = self._due()
        tick = due[0].deadline_tick if due else self._queue.next_tick
        if tick is None:
            self._disarm()
            return None
        return self._scale.tick_start_ns(tick) / 1e9

    def close(self) -> list[TimerHandle]:
        """Cancel everything; sleepers get `PurgatoryClosed`, operations without their timer end as closed.

        Returns:
            The handles of callbacks that had not fired, by deadline; [] if it was closed already.
        """
        if self.closed:
            return []
        self.closed = True
        self._open = False
        self._last_delay = _NO_DELAY
        self._disarm()
        self._calm()
        due = self._due()
        left = [
            *due,
            *cast("list[Timed]", self._queue.advance(NEVER)),
            *cast("list[Timed]", list(self._never)),
        ]
        self._firing.clear()
        self._soon.clear()
        self._never.clear()
        if self._pending_ids is not None:
            self._pending_ids.clear()
        for entry in left:
            entry._lost_timer()
        handles = [entry for entry in left if type(cast("object", entry)) is TimerHandle]
        return cast("list[TimerHandle]", handles)

    # Admission.

    def _admit(self, name: str, delay: float, *, unlimited: bool = False) -> int | None:
        """Check that a delay can start here and now; returns it in nanoseconds, None for never."""
        check_delay(name, delay)
        self._enter(name, delay, unlimited=unlimited)
        if delay == inf:
            return None
        if delay <= 0:
            return seconds_to_ns(max(delay, -MAX_TIMEOUT))
        self._open = self._max_pending is None
        return max(1, seconds_to_ns(delay))

    def _remember(self, delay: float) -> bool:
        """Convert and store an ordinary delay on an open timer; False if `_admit` must check it."""
        if self._open and (type(delay) is float or type(delay) is int) and 0.0 < delay <= MAX_TIMEOUT:
            self._last_delay = delay
            self._last_delay_ns = int(delay * 1e9 + 0.5) or 1  # seconds_to_ns, without the call
            self._same_until_ns = LONG_AGO
            return True
        return False

    def _enter(self, name: str, delay: float, *, unlimited: bool = False) -> None:
        """Refuse if the timer is closed, full or on another loop."""
        if self.closed:
            raise PurgatoryClosed(f"timer is closed: cannot schedule {name}={delay} s")
        if self._max_pending is not None and not unlimited and self.pending >= self._max_pending:
            raise PurgatoryFull(
                f"the timer is full: {self.pending} are pending, max_pending is {self._max_pending}",
                limit=self._max_pending,
            )
        self._adopt(_get_running_loop())

    def _start_again(self, entry: TimerNode) -> int:
        """`_start` with the last delay and what is stored of it; returns the present in ns."""
        time_ns = self._time_ns  # a local: see Verbs.try_complete_else_watch
        now_ns = time_ns()
        if now_ns <= self._same_until_ns:
            entry.deadline_tick = self._last_tick
            bucket = self._last_bucket
            last = bucket._prev
            if last is not None:  # not dropped: `Bucket.append`, inlined
                entry._next = bucket
                entry._prev = last
                last._next = bucket._prev = entry
                return now_ns
            schedule = self._schedule
            if self._last_tick >= self._armed_tick and schedule(entry):
                return now_ns
        delay_ns = self._last_delay_ns
        now_ns = self._start(entry, delay_ns) - delay_ns
        self._last_tick = tick = entry.deadline_tick
        # An entry goes to the end of its bucket on every level, so its `_next` is the bucket.
        self._last_bucket = (entry._next if type(self._queue) is TimingWheel else None) or _NOWHERE
        self._same_until_ns = self._scale.tick_start_ns(tick) - delay_ns
        return now_ns

    def _begin(self, entry: TimerNode, delay_ns: int | None, now_ns: int | None = None) -> float:
        """Start an admitted delay, None for never; returns its end in nanoseconds.

        A delay that is over counts from ``now_ns``, or from the present if that is None.
        """
        if self._pending_ids is not None:
            self._pending_ids.add(id(entry))
        if delay_ns is None:
            self._start_never(entry)
            return inf
        if delay_ns > 0:
            return self._start(entry, delay_ns)
        deadline_ns: int = (self._time_ns() if now_ns is None else now_ns) + delay_ns
        self._start_now(entry, deadline_ns)
        return deadline_ns

    def _start_timeout(self, operation: TimerNode, timeout: float) -> int | None:
        """Start an operation's deadline; its purgatory has checked the loop.

        Returns:
            The present in nanoseconds, from which the deadline counts; None without a deadline.
        """
        if timeout is self._last_delay:
            # The usual half of `_start_again`, inlined (python -m bench.proposal --callback).
            time_ns = self._time_ns
            now_ns: int = time_ns()
            if now_ns <= self._same_until_ns:
                bucket = self._last_bucket
                last = bucket._prev
                if last is not None:
                    operation.deadline_tick = self._last_tick
                    operation._next = bucket
                    operation._prev = last
                    last._next = bucket._prev = operation
                    return now_ns
            return self._start_again(operation)
        if self._remember(timeout):
            return self._start(operation, self._last_delay_ns) - self._last_delay_ns
        if timeout == inf:
            return None
        delay_ns = self._admit("timeout", timeout)
        return int(self._begin(operation, delay_ns)) - (delay_ns or 0)

    def _restart(self, handle: TimerHandle, delay: float) -> None:
        delay_ns = self._admit("delay", delay, unlimited=True)
        if not self._withdraw(handle):
            self._never.discard(handle)
        handle._when = self._begin(handle, delay_ns)

    def _call_unlimited(self, delay: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """Like `call_later`, without ``max_pending``."""
        handle = TimerHandle(self, callback, args)
        handle._when = self._begin(handle, self._admit("timeout", delay, unlimited=True))
        return handle

    def _unschedule(self, operation: TimerNode) -> bool:
        """Forget an operation's deadline."""
        return self._withdraw(operation)

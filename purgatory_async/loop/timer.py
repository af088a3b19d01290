"""The timer: callbacks, sleeps and deadlines on a timing wheel, with one wakeup of the event loop."""

import asyncio
from math import inf
from typing import cast

from purgatory_async.clock import Clock, MonotonicClock, check_tick
from purgatory_async.errors import PurgatoryClosed, check_limit
from purgatory_async.loop.ownership import LoopOwner
from purgatory_async.loop.reaper import BY_DEADLINE, NEVER, Timed, is_in
from purgatory_async.loop.scheduler import Scheduler
from purgatory_async.loop.timeout_scope import TimeoutScope
from purgatory_async.loop.timer_handle import Sleeper, TimerHandle
from purgatory_async.loop.wakeups import dispatcher_of
from purgatory_async.timing import TimerQueue, TimingWheel


class Timer(Scheduler, LoopOwner):
    """Callbacks after a delay, on a timing wheel with one wakeup of the event loop.

    It belongs to the loop that runs at its first use, and once that has closed and nothing is pending, to the next.
    With a clock that needs none (as `purgatory_async.testing.ManualClock`) it works without a loop.

    Args:
        tick: Resolution in seconds, from a microsecond to a day. A callback never fires early, and never later
            than one tick plus one loop turn plus the time for which the loop was blocked.
        queue: An empty `TimerQueue`; a `TimingWheel` if not given.
        clock: The source of time; if not given, a virtual loop's own time or the monotonic clock.
        max_pending: Limit of pending callbacks and deadlines; None for no limit.

    Raises:
        TypeError, ValueError: An argument is out of its bounds.
    """

    __slots__ = ("_has_own_clock",)

    def __init__(
        self,
        *,
        tick: float = 0.001,
        queue: TimerQueue | None = None,
        clock: Clock | None = None,
        max_pending: int | None = None,
    ) -> None:
        tick_ns = check_tick(tick)
        max_pending = check_limit("max_pending", max_pending)
        if queue is not None and len(queue):
            raise ValueError(f"queue must be empty, got {queue!r}")
        super().__init__(tick_ns, TimingWheel() if queue is None else queue, clock, max_pending)
        self._has_own_clock = clock is not None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"pending={self.pending}"
        return f"<Timer tick={self._tick_ns / 1e9} {state} queue={self._queue!r}>"

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
        self._start_handle(sleeper, delay_ns)
        try:
            await future
        finally:
            sleeper.cancel()
        if not sleeper.fired:
            raise PurgatoryClosed(f"timer was closed during a sleep of {delay} s")

    def timeout(self, delay: float | None) -> TimeoutScope:
        """Limit the time of the body of an ``async with``: `asyncio.timeout` on this timer's clock. O(1).

        Args:
            delay: Seconds from this call; None and ``inf`` for no deadline, until it is rescheduled. Zero and less: on
                the next loop turn.

        Returns:
            The scope to enter; it can be rescheduled inside. Leaving it raises `TimeoutError` if the deadline
            interrupted the body, and `PurgatoryClosed` if the closing of the timer did.

        Raises:
            TypeError, ValueError, PurgatoryError, PurgatoryClosed, PurgatoryFull: As for `call_later`, here or at
                entering.

        >>> from purgatory_async.testing import VirtualTimeLoop
        >>> async def main():
        ...     timer = Timer()
        ...     async with timer.timeout(5) as scope:
        ...         await timer.sleep(4)
        ...         scope.reschedule(5)
        ...         await timer.sleep(60)
        >>> with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        ...     runner.run(main())
        Traceback (most recent call last):
        TimeoutError: timeout of 5 s expired
        """
        delay_ns = self._admit("delay", inf if delay is None else delay)
        return TimeoutScope(self, delay, None if delay_ns is None else self._now_ns() + delay_ns)

    # Reading.

    def time(self) -> float:
        """The present in seconds on this timer's clock."""
        return self.time_ns() / 1e9

    def time_ns(self) -> int:
        """The present in nanoseconds on this timer's clock."""
        if self._clock is not None:
            return self._clock.time_ns()
        running: object = asyncio._get_running_loop()
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

    # Ownership.

    def _adopt(self, running: asyncio.AbstractEventLoop | None) -> None:
        """Bind to the running loop, or refuse another than the bound one."""
        if running is None:
            self._require_loop(None, exact=self._exact)
        else:
            if self._loop is not None and self._loop.is_closed() and not self._counted_out():
                self._abandon()
            self._own(running)
            if self._clock is None:  # a virtual loop is a clock itself
                self._use(running if isinstance(running, Clock) else MonotonicClock())

    def _abandon(self) -> None:
        """Undo the binding to a loop; no entry waits."""
        self._disown()
        self._disarm()
        self._calm()  # a closed loop has dropped its calls
        if not self._has_own_clock:
            self._clock = None

    # Counting.

    def _due(self) -> list[Timed]:
        """Entries outside the queue that must still fire, in order of deadline."""
        due = [entry for entry in self._firing if is_in(entry, None)]
        due += [entry for _, _, place, entry in sorted(self._soon) if is_in(entry, place)]
        return sorted({id(entry): entry for entry in due}.values(), key=BY_DEADLINE)

    def _counted_out(self) -> int:
        return len(self._queue) + len(self._never) + len(self._due())

    def check_invariants(self) -> None:
        """Assert a sound queue, an armed wakeup and a correct count. O(n), for tests."""
        self._queue.check_invariants()
        if len(self._queue) and not self._hurried:
            assert self._wakeup is not None, f"{self!r} has entries, but no wakeup"
        if self._pending_ids is not None:
            counted, waiting = len(self._pending_ids), self._counted_out()
            assert counted == waiting, f"{waiting} entries wait, {counted} are counted"

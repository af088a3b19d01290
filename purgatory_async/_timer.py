"""The timer: a timing wheel on an event loop.

However many deadlines are pending, the loop holds one wakeup for them: for the earliest bucket with something
in it. It is armed again only when something earlier comes. Cancelling does not touch it; a wakeup that finds
nothing arms nothing. Every pass looks at the clock itself, takes out what is due by it, at most `SLICE` at a time,
and lets the loop breathe in between; a wakeup that came early just arms again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import chain
from math import inf
from operator import attrgetter
from sys import maxsize
from typing import Any, Final, Protocol, cast

from purgatory_async._checks import check_callback, check_max_pending
from purgatory_async._dispatch import SLICE, Dispatcher, dispatcher_of
from purgatory_async._errors import PurgatoryClosed, PurgatoryError, PurgatoryFull
from purgatory_async._handle import Sleeper, TimerHandle
from purgatory_async.clock import (
    MAX_TIMEOUT,
    Cancellable,
    Clock,
    MonotonicClock,
    TickScale,
    check_delay,
    check_tick,
    seconds_to_ns,
)
from purgatory_async.timing import TimerQueue, TimingWheel
from purgatory_async.timing._entry import TimerNode

__all__ = ["Timer"]

_NEVER: Final = maxsize  # later than any tick: 100 years are 3e15 microseconds
_IN_PASS: Final = -1  # earlier than any tick: what a pass adds needs no arming, the pass ends with it
_BY_DEADLINE: Final = attrgetter("deadline_tick")


class Timed(Protocol):
    """What the timer asks of an entry, beside its links: `TimerHandle` and `DelayedOperation` have it."""

    deadline_tick: int
    _waiting: bool

    def _expire(self) -> None: ...
    def _lost_timer(self) -> None: ...


class Timer:
    """Callbacks after a delay, on a timing wheel with one wakeup of the event loop.

    It belongs to the loop that runs when it is first used; with a clock that needs none (as
    `purgatory_async.testing.ManualClock`), it works without a loop.

    Args:
        tick: Resolution in seconds, from a microsecond to a day. Nothing fires early, and nothing later than
            one tick plus one loop turn plus however long the loop was blocked.
        queue: An empty `TimerQueue`; a `TimingWheel` if not given.
        clock: Where time comes from; the monotonic clock if not given, or a virtual loop's own time.
        max_pending: How many callbacks and deadlines may be pending; None for any number.

    Raises:
        TypeError, ValueError: An argument is out of its bounds.
    """

    __slots__ = (
        "__weakref__",
        "_armed_tick",
        "_ceiling_ns",
        "_clock",
        "_exact",
        "_firing",
        "_hurried",
        "_hurry",
        "_last_tick",
        "_loop",
        "_max_pending",
        "_never",
        "_open",
        "_queue",
        "_scale",
        "_soon",
        "_tick_ns",
        "_time_ns",
        "_wakeup",
        "_wakeup_tick",
        "closed",
    )

    closed: bool
    """Whether it has been closed."""

    def __init__(
        self,
        *,
        tick: float = 0.001,
        queue: TimerQueue | None = None,
        clock: Clock | None = None,
        max_pending: int | None = None,
    ) -> None:
        self._tick_ns = check_tick(tick)
        check_max_pending(max_pending)
        if queue is not None and len(queue):
            raise ValueError(f"queue must be empty, got {queue!r}")
        self._queue: TimerQueue = TimingWheel() if queue is None else queue
        self._max_pending = max_pending
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock: Clock | None = None
        self._wakeup: Cancellable | None = None
        self._wakeup_tick = _NEVER
        self._armed_tick = _NEVER  # whatever is due before it must arm a wakeup
        self._last_tick = _NEVER
        self._soon: deque[Timed] = deque()  # due without the wheel: zero delays, and what an interrupt left
        self._firing: deque[Timed] = deque()  # handed out by the wheel in this pass
        self._never: set[TimerNode] = set()  # infinite delays: pending, but nothing will ever be due
        self._hurried = False  # a pass is on its way, whatever the wakeup says
        self._hurry: Cancellable | None = None  # the same on a clock that needs no loop
        self._open = (
            False  # whether the common case of `call_later` needs no further look: bound, not limited
        )
        self.closed = False
        if clock is not None:
            self._use(clock)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"pending={self.pending}"
        return f"<Timer tick={self._tick_ns / 1e9} {state} queue={self._queue!r}>"

    # Starting callbacks.

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """Call ``callback(*args)`` after a delay, in a copy of the present context. O(1).

        Args:
            delay: Seconds. Zero and less: on the next loop turn. ``inf``: never.
            callback: A plain function. Its exception goes to the loop's exception handler.

        Returns:
            A handle to cancel or reschedule it.

        Raises:
            TypeError: ``delay`` is no number, or ``callback`` cannot be called or is async.
            ValueError: ``delay`` is NaN, ``-inf``, or above 100 years.
            PurgatoryFull: ``max_pending`` are pending.
            PurgatoryClosed: The timer is closed.
            PurgatoryError: No event loop is running, and the clock needs one.
        """
        handle = TimerHandle(self, callback, args)
        # What is below is `self._begin(handle, self._admit(delay))`, with the common case written out.
        if type(delay) is float and 0.0 < delay <= MAX_TIMEOUT and self._open:
            handle._when = self._start(handle, int(delay * 1e9 + 0.5))
        else:
            handle._when = self._begin(handle, self._admit("delay", delay))
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """Call ``callback(*args)`` at a time of this timer's `time`; as `call_later` otherwise.

        Args:
            when: Seconds on this timer's clock; in the past: on the next loop turn. ``inf``: never.
            callback: A plain function.
        """
        handle = TimerHandle(self, callback, args)
        delay_ns = self._admit("when", when)
        if delay_ns is not None:
            delay_ns = seconds_to_ns(when) - self._time_ns()
        self._begin(handle, delay_ns)
        handle._when = float(when)
        return handle

    async def sleep(self, delay: float) -> None:
        """Suspend the calling task for a delay, on this timer's clock.

        Args:
            delay: Seconds; zero and less lets the loop turn once.

        Raises:
            PurgatoryClosed: The timer is or was closed before the time was up.
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
            raise PurgatoryClosed(f"the timer was closed under a sleep of {delay} s")

    # Reading.

    def time(self) -> float:
        """The present in seconds on this timer's clock."""
        if self._clock is None:
            self._use(self._default_clock())
        return self._time_ns() / 1e9

    @property
    def pending(self) -> int:
        """Callbacks, sleeps and operations' deadlines that have not fired. O(1) but for those just due."""
        due = {id(entry) for entry in chain(self._soon, self._firing) if entry._waiting}
        return len(self._queue) + len(self._never) + len(due)

    @property
    def next_deadline(self) -> float | None:
        """When there is next something to do, in seconds on this timer's clock; None when idle.

        Never after the earliest deadline plus one tick; it may be before, when entries move between levels.
        """
        if self._clock is None:
            return None
        if any(entry._waiting for entry in chain(self._soon, self._firing)):
            return self.time()
        tick = self._queue.next_tick
        if tick is None:
            self._disarm()
            return None
        return self._scale.tick_start_ns(tick) / 1e9

    def check_invariants(self) -> None:
        """Assert that the queue is sound and the wakeup is early enough. O(n), for tests."""
        self._queue.check_invariants()
        next_tick = self._queue.next_tick
        if next_tick is not None and not self._hurried:
            assert self._wakeup is not None, f"{self!r} has entries, but no wakeup"
            assert self._wakeup_tick <= next_tick, (
                f"woken at tick {self._wakeup_tick}, but due at {next_tick}"
            )

    def close(self) -> list[TimerHandle]:
        """Cancel everything; sleepers get `PurgatoryClosed`, operations without their timer end as closed.

        Returns:
            The handles of the callbacks that had not fired, by deadline. Empty when closed before.
        """
        if self.closed:
            return []
        self.closed = True
        self._open = False
        self._disarm()
        self._calm()
        left = [*self._firing, *self._soon, *cast("list[Timed]", self._queue.advance(_NEVER))]
        left.sort(key=_BY_DEADLINE)
        left += cast("list[Timed]", list(self._never))
        self._firing.clear()
        self._soon.clear()
        self._never.clear()
        dropped = [entry for entry in dict.fromkeys(left) if entry._waiting]
        for entry in dropped:
            entry._lost_timer()
        handles = [entry for entry in dropped if type(cast("object", entry)) is TimerHandle]
        return cast("list[TimerHandle]", handles)

    # Scheduling.

    def _adopt(self, running: asyncio.AbstractEventLoop | None) -> None:
        """Belong to the loop that is running, or see that it is the right one."""
        if self._clock is None:
            self._use(self._default_clock())
        if running is None:
            if not self._exact:
                raise PurgatoryError(
                    f"{self!r} needs a running event loop; call it from a coroutine or callback"
                )
        elif self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise PurgatoryError(f"{self!r} belongs to {self._loop!r}, but was used from {running!r}")
        self._open = self._max_pending is None

    def _admit(self, name: str, delay: float, *, unlimited: bool = False) -> int | None:
        """See that a delay can be taken here and now; returns it in nanoseconds, None for never."""
        check_delay(name, delay)
        if self.closed:
            raise PurgatoryClosed(f"the timer is closed and takes no {name} of {delay} s")
        self._adopt(asyncio._get_running_loop())
        if self._max_pending is not None and not unlimited and self.pending >= self._max_pending:
            raise PurgatoryFull(
                f"the timer is full: {self.pending} are pending, max_pending is {self._max_pending}"
            )
        if delay == inf:
            return None
        return seconds_to_ns(delay) if delay > 0 else 0

    def _call_unlimited(self, delay: float, callback: Callable[..., object], *args: object) -> TimerHandle:
        """As `call_later`, for what must get through although the timer is full."""
        handle = TimerHandle(self, callback, args)
        handle._when = self._begin(handle, self._admit("timeout", delay, unlimited=True))
        return handle

    def _canceller(self) -> Callable[[TimerNode], bool]:
        """What takes an entry out of the queue."""
        return self._withdraw if self._exact else self._queue.cancel

    def _begin(self, entry: TimerNode, delay_ns: int | None) -> float:
        """Let an admitted delay start; returns when it ends, in nanoseconds."""
        if delay_ns is None:
            entry.deadline_tick = _NEVER
            self._never.add(entry)
            return inf
        if delay_ns > 0:
            return self._start(entry, delay_ns)
        now_ns = self._time_ns()
        entry.deadline_tick = self._scale.elapsed_ticks(now_ns)
        self._soon.append(cast("Timed", entry))
        self._pass_soon()
        return now_ns

    def _start(self, entry: TimerNode, delay_ns: int) -> int:
        """Schedule an entry after a positive delay; returns the deadline in nanoseconds."""
        deadline_ns = self._time_ns() + delay_ns
        tick = (deadline_ns - self._ceiling_ns) // self._tick_ns  # TickScale.deadline_tick, without the call
        if tick == self._last_tick:
            tick = self._last_tick  # one int object for all deadlines of a tick: 32 bytes each otherwise
        else:
            self._last_tick = tick
        entry.deadline_tick = tick
        if tick >= self._armed_tick:
            self._queue.schedule(entry)
        else:
            self._start_earliest(entry)
        return deadline_ns

    def _start_earliest(self, entry: TimerNode) -> None:
        """Schedule an entry that is due before the wakeup there is, and arm an earlier one."""
        if not self._exact:
            asyncio.get_running_loop()  # raises before anything is registered, not after
        # Nothing is due before the wakeup, so this takes nothing out. It brings a wheel that stood still while
        # idle to the present, or it would place the entry as coarsely as if it were that much further away.
        self._queue.advance(self._scale.elapsed_ticks(self._time_ns()), 1)
        self._queue.schedule(entry)
        self._arm()

    def _restart(self, handle: TimerHandle, delay: float) -> None:
        delay_ns = self._admit("delay", delay, unlimited=True)
        self._withdraw(handle)
        handle._when = self._begin(handle, delay_ns)

    def _withdraw(self, entry: TimerNode) -> bool:
        """Take an entry out, wherever it waits."""
        if not self._queue.cancel(entry):
            self._never.discard(entry)
            return False
        if self._exact and self._armed_tick != _IN_PASS:
            self._arm()
        return True

    # Waking.

    def _default_clock(self) -> Clock:
        running: object = asyncio._get_running_loop()
        return running if isinstance(running, Clock) else MonotonicClock()

    def _use(self, clock: Clock) -> None:
        self._clock = clock
        self._time_ns = clock.time_ns
        self._exact: bool = not getattr(clock, "needs_loop", True)
        self._scale = TickScale(self._tick_ns, clock.time_ns(), self._queue.now_tick)
        self._ceiling_ns = self._scale.origin_ns - self._tick_ns + 1

    def _arm(self) -> None:
        """See that the one wakeup there is, if any, is for the next thing to do."""
        tick = self._queue.next_tick
        if tick is None:
            self._disarm()
            return
        self._armed_tick = tick
        if tick != self._wakeup_tick:
            if self._wakeup is not None:
                self._wakeup.cancel()
            self._wakeup_tick = tick
            assert self._clock is not None
            self._wakeup = self._clock.call_at_ns(self._scale.tick_start_ns(tick), self._on_wakeup)

    def _disarm(self) -> None:
        self._armed_tick = self._wakeup_tick = _NEVER
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _pass_soon(self) -> None:
        """Have a pass made in the loop's next turn; on a clock that needs no loop, at its next advance too."""
        if self._hurried:
            return
        self._hurried = True
        running = asyncio._get_running_loop()
        if running is not None:
            dispatcher_of(running).soon(self._on_hurry)
        if self._exact:
            assert self._clock is not None
            self._hurry = self._clock.call_at_ns(self._time_ns(), self._on_hurry)

    def _calm(self) -> None:
        self._hurried = False
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _on_wakeup(self) -> bool:
        self._wakeup = None
        self._wakeup_tick = _NEVER
        return self._pass()

    def _on_hurry(self) -> bool:
        if not self._hurried:
            return False
        self._calm()
        return self._pass()

    def _pass(self) -> bool:
        """Fire what is due, at most a slice of it unless the clock is exact, and arm for the rest.

        Returns:
            Whether anything was due; entries may only have moved within the wheel.
        """
        limit = None if self._exact else SLICE
        self._armed_tick = _IN_PASS
        now_tick = self._scale.elapsed_ticks(self._time_ns())
        due = cast("list[Timed]", self._queue.advance(now_tick, limit))
        soon = self._soon
        if soon:
            due += [soon.popleft() for _ in range(min(len(soon), limit or len(soon)))]
            due.sort(key=_BY_DEADLINE)
        firing = self._firing
        firing.extend(due)
        try:
            while firing:
                entry = firing.popleft()
                if entry._waiting:
                    entry._expire()
        finally:
            soon.extendleft(reversed(firing))  # empty, but for an interrupt
            firing.clear()
            self._finish_pass(now_tick)
        return bool(due)

    def _finish_pass(self, now_tick: int) -> None:
        if self.closed:  # by a callback
            return
        next_tick = self._queue.next_tick
        if next_tick is not None and next_tick <= now_tick:
            self._pass_soon()  # the limit held some back; until then, whatever is added needs no arming
        else:
            self._arm()
        if self._soon:
            self._pass_soon()

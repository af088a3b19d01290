"""The clock of the fold's timer: it stands at log time and moves only forward, when an entry comes.

It is `purgatory_async.testing.ManualClock` for one timer, in integers: no float holds log time to the microsecond and
the distance to a deadline in 100 years as well.
"""

from collections.abc import Callable, Iterator
from typing import Final

NEVER: Final = 2**127
"""A time of the clock that never comes."""


class LogClock:
    """A clock that stands still between entries.

    Args:
        now_us: Log time, in microseconds since 1970.
        zero_us: The log time at which `time_ns` is 0; whole milliseconds, because timers round to them.

    >>> from purgatory_async import Timer
    >>> clock = LogClock(5_000_000)
    >>> handle = Timer(clock=clock).call_later(0.25, print, "a quarter of a second later")
    >>> clock.advance_to(5_249_999)
    >>> clock.advance_to(9_000_000)
    a quarter of a second later
    """

    needs_loop: Final = False
    """Timers on this clock run without an event loop."""
    slice: Final = 16
    """How many entries a timer on this clock fires in a pass."""

    __slots__ = ("_wakeups", "next_ns", "now_ns", "now_us", "zero_us")

    now_us: int
    """Log time in microseconds; while time passes, the time of the event that happens."""
    now_ns: int
    """The same in nanoseconds, counted from `zero_us`."""
    next_ns: int
    """When the clock next has something to do, as `now_ns` counts; `NEVER` when idle. It may be earlier than the first
    deadline."""

    def __init__(self, now_us: int = 0, zero_us: int = 0) -> None:
        self.now_us = now_us
        self.zero_us: Final = zero_us
        self.now_ns = (now_us - zero_us) * 1000
        self.next_ns = NEVER
        self._wakeups: list[_Wakeup] = []  # at most two of a timer

    def __repr__(self) -> str:
        return f"<LogClock at {self.now_us} µs>"

    def time_ns(self) -> int:
        """Return log time in nanoseconds, counted from `zero_us`."""
        return self.now_ns

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> "_Wakeup":
        """Call ``callback()`` when the clock comes to ``when_ns``; see `purgatory_async.clock.Clock`."""
        wakeup = _Wakeup(self, when_ns, callback)
        self._wakeups.append(wakeup)
        self.next_ns = min(self.next_ns, when_ns)
        return wakeup

    def advance_to(self, at_us: int) -> None:
        """Move to a log time that is not before the present, and run what is due on the way, each at its own time."""
        for _ in self.passes(at_us):
            pass

    def moved_to(self, at_us: int) -> bool:
        """Move to a log time if nothing is due on the way; return whether it has. O(1)."""
        at_ns = (at_us - self.zero_us) * 1000
        if self.next_ns <= at_ns:
            return False
        self.now_ns = at_ns
        self.now_us = at_us
        return True

    def passes(self, at_us: int) -> Iterator[None]:
        """Do as `advance_to`, with a break after each pass of the timer."""
        while not self.moved_to(at_us):
            wakeup = min(self._wakeups, key=_when)
            self.drop(wakeup)
            if wakeup.when_ns > self.now_ns:
                self.now_ns = wakeup.when_ns
                self.now_us = self.zero_us + wakeup.when_ns // 1000
            wakeup.callback()
            yield

    def drop(self, wakeup: "_Wakeup") -> None:
        """Forget a scheduled call; does nothing once it was made. O(those scheduled)."""
        if wakeup in self._wakeups:
            self._wakeups.remove(wakeup)
            self.next_ns = min(map(_when, self._wakeups), default=NEVER)


class _Wakeup:
    """One scheduled call."""

    __slots__ = ("_clock", "callback", "when_ns")

    def __init__(self, clock: LogClock, when_ns: int, callback: Callable[[], object]) -> None:
        self._clock = clock
        self.when_ns = when_ns
        self.callback = callback

    def cancel(self) -> None:
        """Cancel the call; does nothing once it was made."""
        self._clock.drop(self)


def _when(wakeup: _Wakeup) -> int:
    return wakeup.when_ns

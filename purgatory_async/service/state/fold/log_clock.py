"""The clock of the fold's timer: it stands at log time and moves only forward, when an entry comes.

It is `purgatory_async.testing.ManualClock` for one timer, in integers: no float holds log time to the microsecond and
the distance to a deadline in 100 years as well.
"""

from collections.abc import Callable
from typing import Final

MANY: Final = 16
_NEVER: Final = 2**127


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

    __slots__ = ("_next_ns", "_now_ns", "_wakeups", "now_us", "zero_us")

    now_us: int
    """Log time in microseconds; while time passes, that of what is happening."""

    def __init__(self, now_us: int = 0, zero_us: int = 0) -> None:
        self.now_us = now_us
        self.zero_us: Final = zero_us
        self._now_ns = (now_us - zero_us) * 1000
        self._next_ns = _NEVER  # or earlier, because of a cancelled one
        self._wakeups: list[_Wakeup] = []  # at most two of a timer's are not cancelled

    def __repr__(self) -> str:
        return f"<LogClock at {self.now_us} µs>"

    def time_ns(self) -> int:
        """Return log time in nanoseconds, counted from `zero_us`."""
        return self._now_ns

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> "_Wakeup":
        """Call ``callback()`` when the clock comes to ``when_ns``; see `purgatory_async.clock.Clock`."""
        wakeup = _Wakeup(when_ns, callback)
        if len(self._wakeups) > MANY:
            self._drop_cancelled()
        self._wakeups.append(wakeup)
        self._next_ns = min(self._next_ns, when_ns)
        return wakeup

    def advance_to(self, at_us: int) -> None:
        """Move to a log time that is not before the present, and run what is due on the way, each at its own time."""
        at_ns = (at_us - self.zero_us) * 1000
        while self._next_ns <= at_ns:
            self._drop_cancelled()
            if self._next_ns > at_ns:
                break
            wakeup = min(self._wakeups, key=_when)
            self._wakeups.remove(wakeup)
            self._next_ns = min(map(_when, self._wakeups), default=_NEVER)
            if wakeup.when_ns > self._now_ns:
                self._now_ns = wakeup.when_ns
                self.now_us = self.zero_us + wakeup.when_ns // 1000
            wakeup.callback()
        self._now_ns = at_ns
        self.now_us = at_us

    @property
    def next_us(self) -> int | None:
        """When the clock next has something to do; None when idle. It may be earlier than the first deadline. O(1)."""
        self._drop_cancelled()
        return None if self._next_ns == _NEVER else self.zero_us + self._next_ns // 1000

    def _drop_cancelled(self) -> None:
        self._wakeups = [wakeup for wakeup in self._wakeups if not wakeup.cancelled]
        self._next_ns = min(map(_when, self._wakeups), default=_NEVER)


class _Wakeup:
    """One scheduled call."""

    __slots__ = ("callback", "cancelled", "when_ns")

    def __init__(self, when_ns: int, callback: Callable[[], object]) -> None:
        self.when_ns = when_ns
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the call; does nothing once it was made."""
        self.cancelled = True


def _when(wakeup: _Wakeup) -> int:
    return wakeup.when_ns

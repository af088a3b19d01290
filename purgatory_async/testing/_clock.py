"""A clock that moves only on request."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from threading import Lock
from typing import Final

from purgatory_async.clock import check_delay, describe, seconds_to_ns


class ManualClock:
    """A clock for tests: `advance` moves it and runs what falls due on the way, each at its own time.

    Timers on it need no event loop. Callbacks have run when `advance` returns; tasks that they wake run with the
    loop, see `settle`.

    Args:
        start: The first time, in seconds.

    Raises:
        TypeError, ValueError: ``start`` is not a finite number.

    >>> from purgatory_async import Timer
    >>> clock = ManualClock()
    >>> timer = Timer(clock=clock)
    >>> handle = timer.call_later(3600, print, "an hour later")
    >>> clock.advance(3599.999)
    >>> clock.advance(0.001)
    an hour later
    """

    needs_loop: Final = False
    """Timers on this clock run without an event loop."""

    __slots__ = ("__weakref__", "_lock", "_now_ns", "_order", "_purge_at", "_wakeups")

    def __init__(self, start: float = 0.0) -> None:
        start = check_delay("start", start)
        if start == inf:
            raise ValueError(f"start must be finite, got {describe(start)}")
        self._now_ns = seconds_to_ns(start)
        self._lock: Final = Lock()  # a broker in a thread schedules while the test's thread advances
        self._wakeups: list[tuple[int, int, _Wakeup]] = []
        self._order = count()
        self._purge_at = 64

    def __repr__(self) -> str:
        return f"<ManualClock at {self.time()} s>"

    def time(self) -> float:
        """Return the current time in seconds."""
        return self._now_ns / 1e9

    def time_ns(self) -> int:
        """Return the current time in nanoseconds."""
        return self._now_ns

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> "_Wakeup":
        """Call ``callback()`` when the clock is moved to ``when_ns`` or beyond; see `Clock.call_at_ns`.

        A callback that did nothing returns False; `advance_to_next` then continues.
        """
        wakeup = _Wakeup(callback)
        with self._lock:
            if len(self._wakeups) >= self._purge_at:  # drop cancelled ones before they outnumber the others
                self._wakeups = [entry for entry in self._wakeups if not entry[2].cancelled]
                heapify(self._wakeups)
                self._purge_at = 2 * len(self._wakeups) + 64
            heappush(self._wakeups, (when_ns, next(self._order), wakeup))
        return wakeup

    def advance(self, seconds: float) -> None:
        """Move forward and run everything that falls due on the way, in order.

        Args:
            seconds: How far; ``advance(0)`` runs what is due now.

        Raises:
            TypeError: ``seconds`` is not a number.
            ValueError: ``seconds`` is negative, NaN or infinite.
        """
        seconds = check_delay("seconds", seconds)
        if not 0 <= seconds < inf:
            raise ValueError(f"seconds must be finite and not negative, got {describe(seconds)}")
        target_ns = self._now_ns + seconds_to_ns(seconds)
        while (due := self._take(max(target_ns, self._now_ns))) is not None:
            self._wake(*due)
        self._now_ns = max(self._now_ns, target_ns)

    def advance_to_next(self) -> float | None:
        """Move to the next due time and run what is due then.

        Returns:
            The new time in seconds; None, without a move, if nothing is scheduled.
        """
        while (first := self._take()) is not None:
            woken = [self._wake(*first)]
            while (also := self._take(max(first[0], self._now_ns))) is not None:
                woken.append(self._wake(*also))
            if any(woken):
                return self.time()
        return None

    def _take(self, until_ns: float = inf) -> "tuple[int, _Wakeup] | None":
        """Remove and return the next wakeup that is not cancelled, if it is due by then, and when it is due."""
        with self._lock:
            while self._wakeups and (self._wakeups[0][2].cancelled or self._wakeups[0][0] <= until_ns):
                when_ns, _, wakeup = heappop(self._wakeups)
                if not wakeup.cancelled:
                    return when_ns, wakeup
        return None

    def _wake(self, when_ns: int, wakeup: "_Wakeup") -> bool:
        """Move to a wakeup and call it; False if it did nothing."""
        self._now_ns = max(self._now_ns, when_ns)
        return wakeup.callback() is not False


class _Wakeup:
    """One scheduled call."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the call and drop its callback at once."""
        self.cancelled = True
        self.callback = bool

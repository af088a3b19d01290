"""An estimate of log time, made without asking the engine.

An entry's log time is in the past when the worker sees it. So the largest offset seen, from the worker's monotonic
clock to log time, is the best, and still a little late. Only if the engine's clock goes back, or the worker's runs
slower, is the estimate ahead. It is used for nothing but to know when a tick is worth appending, and to show times.
"""

from collections.abc import Callable
from typing import Final

WINDOW_US: Final = 30_000_000
"""An offset counts for once to twice this time: clocks drift apart."""


class LogTime:
    """An estimate of log time.

    Args:
        clock_us: Returns the present in microseconds, on a clock that never goes back.
        at_us: The log time of an entry of any age.

    >>> here = 0
    >>> log_time = LogTime(lambda: here, 1_000_000)
    >>> here = 500
    >>> log_time.hear(1_000_900), log_time.now_us()
    (None, 1000900)
    >>> here = 700
    >>> log_time.hear(1_000_950), log_time.now_us()  # it took long to come
    (None, 1001100)
    """

    __slots__ = ("_clock_us", "_newer_us", "_offset_us", "_since_us")

    def __init__(self, clock_us: Callable[[], int], at_us: int = 0) -> None:
        self._clock_us = clock_us
        self._since_us = clock_us()
        self._offset_us = self._newer_us = at_us - self._since_us

    def hear(self, at_us: int) -> None:
        """Note the log time of an entry that is seen now. O(1)."""
        now_us = self._clock_us()
        offset_us = at_us - now_us
        if now_us - self._since_us >= WINDOW_US:
            self._offset_us, self._newer_us, self._since_us = self._newer_us, offset_us, now_us
        self._newer_us = max(self._newer_us, offset_us)
        self._offset_us = max(self._offset_us, offset_us)

    def correct(self, at_us: int) -> None:
        """Start anew from the log time of an entry just stamped, which shows that the estimate was ahead."""
        self._since_us = self._clock_us()
        self._offset_us = self._newer_us = at_us - self._since_us

    def now_us(self) -> int:
        """Return log time now. O(1)."""
        return self._clock_us() + self._offset_us

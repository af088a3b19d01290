"""How long things took over the last minute, not since the start: a slow start is forgotten, a slow hour is seen.

Delays are counted in buckets each 9 % wider than the one before (the idea of HdrHistogram), so a quantile is at most
4.5 % off from ten microseconds to a hundred years, whatever the distribution; the longest is kept as it is. The
buckets of the minute are twelve of five seconds: what is too old leaves five seconds at a time, when somebody looks.
Nothing runs on its own.

>>> window = Window()
>>> for milliseconds in range(1, 101):
...     window.observe(milliseconds / 1000, now_ns=0)
>>> window.delay(now_ns=0)
Delay(count=100, p50=0.050866496, p99=0.1, max=0.1)
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from typing import Final

from purgatory_async.service.figures import Delay

__all__ = ["WINDOW", "Window"]

WINDOW: Final = 60
"""Seconds that a `Window` covers; at least 55 of them, as the last slot fills and the first leaves whole."""

_SLOT_NS: Final = 5_000_000_000
_SLOTS: Final = WINDOW * 1_000_000_000 // _SLOT_NS
_STEP: Final = 2 ** (1 / 8)
_LEAST: Final = 1e-5
_BOUNDS: Final = tuple(_LEAST * _STEP**number for number in range(386))


@dataclass(slots=True)
class _Slot:
    number: int
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    longest: float = 0.0


class Window:
    """Quantiles of the delays of the last minute, so a slow start is forgotten.

    Each bucket is 9 % wider than the one before (as in HdrHistogram), so a quantile is at most 4.5 % off from ten
    microseconds to a hundred years; the maximum is exact. The minute has twelve slots of five seconds; a call drops the
    old ones, so no timer is needed.

    >>> window = Window()
    >>> for milliseconds in range(1, 101):
    ...     window.observe(milliseconds / 1000, now_ns=0)
    >>> window.delay(now_ns=0)
    Delay(count=100, p50=0.050866496, p99=0.1, max=0.1)
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque([_Slot(0)], maxlen=_SLOTS)

    def observe(self, seconds: float, now_ns: int) -> None:
        """Count a delay; ``now_ns`` never decreases between calls. O(log buckets)."""
        number = now_ns // _SLOT_NS
        slot = self._slots[-1]
        if slot.number != number:
            slot = _Slot(number)
            self._slots.append(slot)
        slot.counts[bisect_left(_BOUNDS, seconds)] += 1
        if seconds > slot.longest:  # noqa: PLR1730 - max() would cost as much as the rest
            slot.longest = seconds

    @staticmethod
    def seconds(now_ns: int) -> float:
        """Return the seconds that a window covers at a time."""
        return WINDOW - (_SLOT_NS - now_ns % _SLOT_NS) / 1e9

    def delay(self, now_ns: int) -> Delay:
        """Return the count, quantiles and maximum. O(buckets)."""
        oldest = now_ns // _SLOT_NS - _SLOTS + 1
        slots = [slot for slot in self._slots if slot.number >= oldest]
        below = list(accumulate(map(sum, zip(*(slot.counts for slot in slots), strict=True))))
        if not below or not below[-1]:
            return Delay(0, None, None, None)
        longest = max(slot.longest for slot in slots)
        return Delay(
            below[-1], _quantile(below, 0.5, longest), _quantile(below, 0.99, longest), round(longest, 9)
        )


def _quantile(below: list[int], share: float, longest: float) -> float:
    """Return the geometric mean of the quantile's bucket, at most the maximum."""
    place = bisect_left(below, ceil(share * below[-1]))
    middle = _LEAST if place == 0 else _LEAST * _STEP ** (place - 0.5)
    return round(min(middle, longest), 9)

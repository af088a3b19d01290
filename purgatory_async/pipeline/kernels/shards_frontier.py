"""How far time has come for a shard, and what follows from it.

Spark calls with the time of a batch in milliseconds: its watermark or its clock. Records keep their nanoseconds. The
two meet here and nowhere else, and always in the same direction: a millisecond stands for its first nanosecond, so
whatever is taken as read has been read, and whatever is due comes up a millisecond late rather than early.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MS", "Frontier", "by_clock", "by_watermark"]

Longs = NDArray[np.int64]

EARLIEST_NS: Final = -(2**63)
LATEST_NS: Final = 2**63 - 1
MS: Final = 10**6


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far time has come in one batch.

    Attributes:
        now_ns: Deadlines up to here have passed.
        settled_ns: All signals before here have been read.
        eager: Whether a sum that is reached counts at once, or only when no earlier signal can come any more.
        keep_ns: How long a signal is kept, after it was read, for operations that are read later. By event time it is
            kept until it is settled: an operation read after that was submitted after it.
        lag_ns: From ``now_ns`` to the time by which Spark's timers go.
    """

    now_ns: int
    settled_ns: int
    eager: bool
    keep_ns: int = 0
    lag_ns: int = 0

    def kept_until_ns(self, at_ns: Longs) -> Longs:
        """For each signal the instant from which no operation that is still to be read can need it."""
        if not self.eager:
            return at_ns
        latest = LATEST_NS - self.keep_ns
        return np.minimum(np.maximum(at_ns, self.now_ns), latest) + self.keep_ns

    @property
    def present_ms(self) -> int:
        """The time of the batch by which Spark's timers go; 0 before there is one."""
        return max(0, (self.now_ns + self.lag_ns) // MS)

    def timer_ms(self, due_ns: int) -> int:
        """When Spark is to call so that ``due_ns`` has passed: after this batch, since it has done what it could."""
        return max(-((due_ns + self.lag_ns) // -MS), self.present_ms + 1)


def by_watermark(watermark_ms: int) -> Frontier:
    """Event time: what has been read decides, and nothing before the watermark is still to be read.

    Args:
        watermark_ms: Spark's, rounded down by it; 0 or less before there is one.

    >>> by_watermark(1_500).now_ns
    1500000000
    >>> by_watermark(1_500).timer_ms(2_000_000_001)  # a nanosecond late is a millisecond late
    2001
    """
    at_ns = watermark_ms * MS if watermark_ms > 0 else EARLIEST_NS
    return Frontier(now_ns=at_ns, settled_ns=at_ns, eager=False)


def by_clock(clock_ms: int, *, delay_ns: int, keep_ns: int) -> Frontier:
    """Processing time: the batch's clock decides, whatever is still to be read.

    Args:
        clock_ms: When the batch began.
        delay_ns: How long after its deadline an operation still waits for signals to be read.
        keep_ns: How long a signal is kept for operations that are read after it.
    """
    clock_ns = clock_ms * MS
    return Frontier(
        now_ns=clock_ns - delay_ns,
        settled_ns=clock_ns - delay_ns - keep_ns,
        eager=True,
        keep_ns=keep_ns,
        lag_ns=delay_ns,
    )

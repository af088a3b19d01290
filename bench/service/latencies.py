"""Many latencies in a few figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Latencies", "percentile"]

_MS = 1e6


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that a share of all do not exceed: always one that was measured.

    Args:
        values: At least one.
        share: Above 0, at most 1; 0.99 for the 99th percentile.

    Returns:
        It. O(n log n).

    Raises:
        ValueError: There is no value, or no such share.
    """
    if not values or not 0 < share <= 1:
        raise ValueError(f"needs a value and a share in (0, 1], got {len(values)} values and {share!r}")
    return sorted(values)[math.ceil(share * len(values)) - 1]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds.

    Attributes:
        p50: Half of them took no longer.
        p99: All but one in a hundred took no longer.
        worst: None took longer.
    """

    p50: float
    p99: float
    worst: float

    @classmethod
    def of_ns(cls, values: Sequence[int]) -> "Latencies":
        """Sum up at least one latency in nanoseconds.

        Raises:
            ValueError: There is none.
        """
        p50, p99, worst = (percentile(values, share) / _MS for share in (0.5, 0.99, 1.0))
        return cls(p50, p99, worst)

    def __str__(self) -> str:
        return f"p50 {self.p50:.2f}, p99 {self.p99:.2f}, worst {self.worst:.2f} ms"

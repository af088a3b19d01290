"""The rate of requests of each owner."""

import math
from collections.abc import Callable
from typing import Final

from purgatory_async.service import problems
from purgatory_async.service.grants import Grant

__all__ = ["Rates"]

_SECOND_NS: Final = 1_000_000_000


class Rates:
    """Counts the requests of each owner that has a rate (the generic cell rate algorithm, ATM Forum TM 4.0).

    Of an owner only one number is kept: when its whole burst is free again. So new rates count from the next request.

    Args:
        now_ns: A monotonic clock, in nanoseconds.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns: Final = now_ns
        self._free_at_ns: Final[dict[str, int]] = {}

    def __repr__(self) -> str:
        return f"<Rates owners={len(self._free_at_ns)}>"

    def count(self, grant: Grant) -> None:
        """Count a request. O(1).

        Raises:
            Problem: ``limited``; the request is not counted.
        """
        rate, owner = grant.limits.rate, grant.owner
        if rate is None or owner is None:
            return
        now_ns = self._now_ns()
        free_at_ns = max(self._free_at_ns.get(owner, 0), now_ns) + rate.every_ns
        late_ns = free_at_ns - now_ns - rate.burst * rate.every_ns
        if late_ns > 0:
            seconds = max(1, math.ceil(late_ns / _SECOND_NS))
            rule = f"rate={rate}, {rate.burst} of them at once"
            raise problems.limited("rate", rate.burst, rate.burst, rule=rule, retry_after=seconds)
        self._free_at_ns[owner] = free_at_ns

"""A call that fails as planned and writes down when it was attempted."""

import asyncio
from collections.abc import Iterator
from itertools import repeat

from purgatory_async import Timer

__all__ = ["Call", "PlannedError"]


class PlannedError(Exception):
    """What a call fails with."""


class Call:
    """Something to attempt; all calls of a list never overlap one another.

    Args:
        timer: Tells the time, and lets an attempt take some.
        failures: How many attempts fail before one succeeds; None if all do.
        takes: Seconds that an attempt takes.
        line: Calls for the same key share one.
    """

    def __init__(
        self, timer: Timer, failures: int | None = None, takes: float = 0.0, line: list[str] | None = None
    ) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self.cancelled = 0
        self.succeeded = 0
        self.errors: list[PlannedError] = []
        self._timer = timer
        self._fails: Iterator[bool] = repeat(True) if failures is None else iter([True] * failures)
        self._takes = takes
        self._line = [] if line is None else line

    async def attempt(self) -> None:
        assert self._line == [], "attempts for one key overlap"
        self._line.append("busy")
        self.begun.append(self._timer.time())
        try:
            if self._takes:
                await self._timer.sleep(self._takes)
            if next(self._fails, False):
                self.errors.append(PlannedError(f"failure {len(self.errors) + 1}"))
                raise self.errors[-1]
            self.succeeded += 1
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._line.pop()
            self.ended.append(self._timer.time())

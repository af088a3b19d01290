"""Waits for a position, which another worker may have answered with."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from purgatory_async import Timer
from purgatory_async.cluster.log import LogUnavailable
from purgatory_async.patterns import Watermark


class Positions:
    """Waits until the state has reached a position.

    Args:
        timer: For the waits.
        present: Returns the state's position, which goes back if the state is loaded again after a loss.

    Attributes:
        waiting: How many there are.
    """

    def __init__(self, timer: Timer, present: Callable[[], int]) -> None:
        self._timer: Final = timer
        self._present: Final = present
        self._reached = Watermark(timer=timer)
        self.waiting = 0

    def __repr__(self) -> str:
        return f"<Positions at={self._present()} waiting={self.waiting}>"

    async def reach(self, position: int, seconds: float | None) -> None:
        """Wait until a position is applied. O(log waits).

        Raises:
            OperationExpired: It was not within some seconds, None for any number.
            PurgatoryClosed: `close` was called.
        """
        until = None if seconds is None else self._timer.time() + seconds
        self.waiting += 1
        try:
            while position > self._present():
                with suppress(LogUnavailable):
                    left = None if until is None else max(until - self._timer.time(), 0)
                    await self._reached.reach(position, left)
        finally:
            self.waiting -= 1

    def look(self) -> None:
        """Complete the waits for the present position; due after each step while any wait."""
        self._reached.advance(self._present())

    def close(self) -> None:
        """End all waits with `PurgatoryClosed`. Idempotent."""
        self._reached.close()

    def restart(self) -> None:
        """Check all waits against the position of a state that was loaded."""
        reached, self._reached = self._reached, Watermark(timer=self._timer)
        reached.fail_all(LogUnavailable("the state was loaded again"))

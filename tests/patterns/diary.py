"""Work that notes when it was done, and what it takes; and the clocks under it."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from purgatory_async import Timer
from purgatory_async.testing import ManualClock
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import ManualWorld, SteppedWorld

WORLDS = (ManualWorld, SteppedWorld)
WORLD_NAMES = ("manual clock", "clock on the loop")


def pass_time(clock: object, seconds: float) -> None:
    """Let time pass within a callback, as when it computes for so long."""
    if isinstance(clock, ManualClock):
        clock.advance(seconds)
    else:
        assert isinstance(clock, SteppedClock)
        clock.move(seconds)


class Diary:
    """Work for a timer that writes down when it begins and ends, and sees that it never overlaps itself.

    Args:
        timer: Tells the time, and lets async work sleep.
        clock: Its clock, for plain work that takes time.
        takes: Seconds that the work takes, one number for each run; then none.
    """

    def __init__(self, timer: Timer, clock: object = None, takes: tuple[float, ...] = ()) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self.cancelled = 0
        self._timer = timer
        self._clock = clock
        self._takes = list(takes)

    def plain(self) -> None:
        """Work that blocks the loop for as long as it takes."""
        takes = self._begin()
        if takes:
            pass_time(self._clock, takes)
        self.ended.append(self._now())

    async def awaited(self) -> None:
        """Work that leaves the loop to others for as long as it takes."""
        takes = self._begin()
        try:
            if takes:
                await self._timer.sleep(takes)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended.append(self._now())

    def _begin(self) -> float:
        assert len(self.begun) == len(self.ended), "it overlaps itself"
        self.begun.append(self._now())
        return self._takes.pop(0) if self._takes else 0.0

    def _now(self) -> float:
        return self._timer.time()


@contextmanager
def by_reference_counts_alone() -> Iterator[None]:
    """Leave nothing to the collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def raising(exception: BaseException) -> Callable[[], None]:
    """A plain function that raises."""

    def a_function_that_raises() -> None:
        raise exception

    return a_function_that_raises


def raising_later(exception: BaseException) -> Callable[[], object]:
    """An async function that raises after it has been suspended."""

    async def a_coroutine_that_raises() -> None:
        await asyncio.sleep(0)
        raise exception

    return a_coroutine_that_raises

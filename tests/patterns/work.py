"""Functions for patterns to run, which note when they ran; and the clocks under them."""

import asyncio
from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest

from purgatory_async import Timer
from purgatory_async.patterns import Heartbeat, Retrier
from purgatory_async.testing import ManualClock
from tests.loop.stepped_clock import SteppedClock
from tests.loop.worlds import ManualWorld, SteppedWorld, World, raising
from tests.patterns.waiters import Waiter


def pass_time(clock: object, seconds: float) -> None:
    """Let time pass within a callback, as when it computes for so long."""
    if isinstance(clock, ManualClock):
        clock.advance(seconds)
    else:
        assert isinstance(clock, SteppedClock)
        clock.move(seconds)


class TimedWork:
    """Work for a timer that notes when it begins and ends, and sees that it never overlaps itself.

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
        self.ended.append(self._timer.time())

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
            self.ended.append(self._timer.time())

    def _begin(self) -> float:
        assert len(self.begun) == len(self.ended), "it overlaps itself"
        self.begun.append(self._timer.time())
        return self._takes.pop(0) if self._takes else 0.0


class PlannedError(Exception):
    """What an attempt fails with."""


class Attempts:
    """Attempts that fail as planned, and note when; all of a list never overlap one another.

    Args:
        timer: Tells the time, and lets an attempt take some.
        failures: How many attempts fail before one succeeds; None if all do.
        takes: Seconds that an attempt takes.
        line: Attempts for the same key share one.
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
        self._fails = repeat(True) if failures is None else iter([True] * failures)
        self._takes = takes
        self._line = [] if line is None else line

    async def attempt(self) -> None:
        """One of them."""
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


class RetrierOnClock:
    """A retrier, and what it gave up, and for what."""

    def __init__(self, world: World, *, tick: float = 0.001, **settings: Any) -> None:
        self.timer = world.timer(tick=tick)
        self.given_up: list[tuple[object, BaseException]] = []
        self.retrier: Retrier[Any] = Retrier(
            self.timer, **({"on_give_up": lambda *what: self.given_up.append(what)} | settings)
        )

    def submit(self, *args: Any, **settings: Any) -> Attempts:
        """Attempts that were submitted for the key ``"key"``."""
        attempts = Attempts(self.timer, *args, **settings)
        self.retrier.submit("key", attempts.attempt)
        return attempts


class Caller:
    """A task that runs attempts, whose result is ``"result"``.

    Args:
        on_clock: The retrier.
        *args: As for `Attempts`.
    """

    def __init__(self, on_clock: RetrierOnClock, *args: Any, key: str = "key", **settings: Any) -> None:
        self.attempts = Attempts(on_clock.timer, *args, **settings)
        self.waiter = Waiter(on_clock.retrier.run(key, self._attempt))

    async def _attempt(self) -> str:
        await self.attempts.attempt()
        return "result"

    @property
    def got(self) -> Any:
        """What came out of it, as for `Waiter`."""
        return self.waiter.got


class Link:
    """A link with a heartbeat that notes when it was pinged, and when it died."""

    def __init__(self, timer: Timer, **settings: Any) -> None:
        self.timer = timer
        self.pings: list[float] = []
        self.deaths: list[float] = []
        settings = {"interval": 60, "send": self.ping, "on_dead": self.die} | settings
        self.heart = Heartbeat(timer, **settings)

    def ping(self) -> None:
        """Note a ping."""
        self.pings.append(self.timer.time())

    def die(self) -> None:
        """Note its death."""
        self.deaths.append(self.timer.time())


def manual_link(**settings: Any) -> tuple[ManualClock, Link]:
    """A link on a clock of its own."""
    clock = ManualClock()
    return clock, Link(Timer(clock=clock), **settings)


def raising_later(exception: BaseException) -> Callable[[], object]:
    """An async function that raises after it has been suspended."""

    async def a_coroutine_that_raises() -> None:
        await asyncio.sleep(0)
        raise exception

    return a_coroutine_that_raises


each_kind = pytest.mark.parametrize("kind", [raising, raising_later], ids=["plain", "async"])
each_world = pytest.mark.parametrize(
    "world_class", [ManualWorld, SteppedWorld], ids=["manual clock", "clock on the loop"]
)

"""Two places for a timer to live, with one way to let time pass; what callbacks do there, and what they leave."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from purgatory_async import Timer
from purgatory_async.testing import ManualClock, settle
from tests.loop.stepped_clock import SteppedClock


class World(Protocol):
    """Where the tests of this folder run; each of them also on every event loop."""

    def timer(self, **settings: Any) -> Timer: ...

    async def run(self, seconds: float) -> None: ...


class ManualWorld:
    """A `ManualClock` beside a running loop."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    def timer(self, **settings: Any) -> Timer:
        return Timer(clock=self.clock, **settings)

    async def run(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await settle()


class SteppedWorld:
    """A clock that wakes through the loop, as the system's clock does."""

    def __init__(self) -> None:
        self.clock = SteppedClock()

    def timer(self, **settings: Any) -> Timer:
        return Timer(clock=self.clock, **settings)

    async def run(self, seconds: float) -> None:
        await self.clock.run(seconds)


def reports() -> list[dict[str, Any]]:
    """What the running loop's exception handler is given from now on."""
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    return contexts


def raising(exception: BaseException) -> Callable[[], None]:
    """A plain function that raises."""

    def a_function_that_raises() -> None:
        raise exception

    return a_function_that_raises


@contextmanager
def by_reference_counts_alone() -> Iterator[None]:
    """Leave nothing to the collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

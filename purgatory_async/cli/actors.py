"""Base class and shared state of the demo's clients.

Delays are log-normal, like the latencies of real systems: most are short, some very long.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

from purgatory_async import Timer
from purgatory_async.cli.connection import Pool
from purgatory_async.client import ServiceError

__all__ = ["Actors", "Scenario", "Stage"]

_LATENCIES: Final = 1_000

Scenario = Callable[[], Awaitable[None]]


class Stage:
    """State that the demo's clients share.

    Attributes:
        clients: How many run now.
        lost: How many failed because the service was gone.
        latencies: Of the last signals, in seconds.
        events: How many were read.
    """

    def __init__(self, pool: Pool, chance: random.Random) -> None:
        self.pool: Final = pool
        self.chance: Final = chance
        self.timer: Final = Timer()
        self.numbers: Final = count(1)
        self.latencies: Final[deque[float]] = deque(maxlen=_LATENCIES)
        self.clients = self.lost = self.events = 0

    async def play(self, scenario: Scenario) -> None:
        """Run one client, and count it as lost if the service is gone."""
        self.clients += 1
        try:
            await scenario()
        except* (OSError, EOFError, ServiceError):
            self.lost += 1  # the service is stopping
        finally:
            self.clients -= 1


class Actors:
    """Base of the groups of clients."""

    def __init__(self, stage: Stage) -> None:
        self._stage: Final = stage
        self._pool: Final = stage.pool

    def _number(self) -> int:
        return next(self._stage.numbers)

    def _happens(self, share: float) -> bool:
        return self._stage.chance.random() < share

    async def _after_a_while(self, median: float) -> None:
        await self._stage.timer.sleep(self._stage.chance.lognormvariate(0, 0.8) * median)

    async def _signal(self, key: str, median: float, **body: object) -> None:
        await self._after_a_while(median)
        begun = self._stage.timer.time()
        await self._pool.request("POST", f"/v1/keys/{key}/signal", body)
        self._stage.latencies.append(self._stage.timer.time() - begun)

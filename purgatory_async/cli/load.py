"""The demo's load: clients that arrive at random over real sockets, and permanent ones."""

import random
from math import ceil
from typing import Final

import anyio

from purgatory_async.cli.actors import Scenario, Stage
from purgatory_async.cli.connection import Pool
from purgatory_async.cli.waiters import Waiters
from purgatory_async.cli.workers import Workers
from purgatory_async.client import AsyncClient

MAX_CLIENTS: Final = 5_000  # beyond, arrivals are skipped: a demo must not collapse under its own clients
_JOBS: Final = 15  # the weight of clients that submit a job, of 115
_LEAST_WORKERS: Final = 3
_ARRIVALS_PER_WORKER: Final = 20.0  # per second; leaves each worker idle time


class Load:
    """Clients, each with a small scenario of its own; ``rate`` new ones arrive per second."""

    def __init__(self, pool: Pool, address: str, rate: float, chance: random.Random) -> None:
        self.stage: Final = Stage(pool, chance)
        self._address = address
        self._rate = rate
        self._waiters = Waiters(self.stage)
        self._workers = Workers(self.stage)
        self._scenarios: dict[Scenario, int] = {**self._waiters.scenarios, self._workers.order: _JOBS}

    async def run(self) -> None:
        """Let clients arrive until cancelled."""
        stage, scenarios, weights = self.stage, list(self._scenarios), list(self._scenarios.values())
        crew = max(_LEAST_WORKERS, ceil(self._rate / _ARRIVALS_PER_WORKER))
        async with anyio.create_task_group() as tasks:
            for lasting in (self._waiters.produce, self._read_events, *[self._workers.work] * crew):
                tasks.start_soon(stage.play, lasting)
            while True:
                await stage.timer.sleep(stage.chance.expovariate(self._rate))
                if stage.clients < MAX_CLIENTS:
                    [scenario] = stage.chance.choices(scenarios, weights)
                    tasks.start_soon(stage.play, scenario)

    async def _read_events(self) -> None:
        """Follow the events of every operation, as an auditor would."""
        async with AsyncClient(self._address) as client:
            async for _ in client.events():
                self.stage.events += 1

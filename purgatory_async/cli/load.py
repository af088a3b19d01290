"""The demo's load: clients of the kinds that a purgatory is for, arriving at random over real sockets.

Delays are log-normal, as the latencies of real systems are: most are short, some very long. Some clients hang
up, some replicas never answer, some operations expire; that is the point of the thing.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

import anyio

from purgatory_async import Timer
from purgatory_async.cli.connection import Pool

MAX_CLIENTS: Final = 5_000  # beyond, arrivals are skipped: a demo must not fall over its own clients
PARTITIONS: Final = 4
_LATENCIES: Final = 1_000

Scenario = Callable[[], Awaitable[None]]


class Load:
    """Clients, each a small scenario of its own.

    Args:
        pool: Connections to the service.
        rate: New clients per second.
        chance: The source of randomness.
    """

    def __init__(self, pool: Pool, rate: float, chance: random.Random) -> None:
        self._pool = pool
        self._rate = rate
        self._chance = chance
        self._timer = Timer()
        self._number = count(1)
        self.clients = 0
        self.lost = 0
        self.latencies: deque[float] = deque(maxlen=_LATENCIES)  # of signals, in seconds
        self._scenarios: dict[Scenario, int] = {
            self._replicated_write: 30,
            self._partitioned_fetch: 20,
            self._tracked_order: 20,
            self._build_result: 20,
            self._slow_approval: 10,
        }

    async def run(self) -> None:
        """Let clients arrive until cancelled."""
        scenarios, weights = list(self._scenarios), list(self._scenarios.values())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._guarded, self._producer)
            while True:
                await self._timer.sleep(self._chance.expovariate(self._rate))
                if self.clients < MAX_CLIENTS:
                    [scenario] = self._chance.choices(scenarios, weights)
                    tasks.start_soon(self._guarded, scenario)

    async def _guarded(self, scenario: Scenario) -> None:
        self.clients += 1
        try:
            await scenario()
        except* (OSError, EOFError):
            self.lost += 1  # the service is stopping
        finally:
            self.clients -= 1

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    async def _after_a_while(self, median: float) -> None:
        await self._timer.sleep(self._chance.lognormvariate(0, 0.8) * median)

    async def _signal(self, key: str, median: float, **body: object) -> None:
        await self._after_a_while(median)
        begun = self._timer.time()
        await self._pool.request("POST", f"/v1/keys/{key}/signal", body)
        self.latencies.append(self._timer.time() - begun)

    async def _replicated_write(self) -> None:
        """Kafka's delayed produce: acknowledged once two of three replicas have it."""
        key = f"commit:{next(self._number)}"
        async with anyio.create_task_group() as replicas:
            for name in ("a", "b", "c"):
                if self._happens(0.85):
                    replicas.start_soon(self._guarded, lambda voter=name: self._signal(key, 0.1, voter=voter))
            order = {"keys": [key], "need": {"voters": 2}, "timeout": "2s"}
            await self._pool.request("POST", "/v1/operations?wait=5s", order)

    async def _partitioned_fetch(self) -> None:
        """Kafka's delayed fetch: enough bytes over several partitions, or what there is after half a second."""
        keys = [f"topic:{number}" for number in range(PARTITIONS)]
        order = {"keys": keys, "need": {"amount": self._chance.randint(200, 2000)}, "timeout": "500ms"}
        await self._pool.request("POST", "/v1/operations?wait=1s", order)

    async def _producer(self) -> None:
        while True:
            partition = self._chance.randrange(PARTITIONS)
            await self._signal(f"topic:{partition}", 0.03, amount=self._chance.randint(10, 200))

    async def _tracked_order(self) -> None:
        """Submit, then poll for the end; one in eight thinks better of it."""
        number = next(self._number)
        keys = [f"order:{number}:shipped", f"order:{number}:refused"]
        order = {"keys": keys, "timeout": "10s", "data": {"order": number}}
        reply = await self._pool.request("POST", "/v1/operations", order)
        location = reply.headers.get("location", "/v1/operations/none")
        async with anyio.create_task_group() as tasks:
            if self._happens(0.125):
                await self._after_a_while(0.3)
                await self._pool.request("DELETE", location)
            else:
                tasks.start_soon(self._guarded, lambda: self._signal(keys[0], 1.0, value={"carrier": "sea"}))
                await self._pool.request("GET", f"{location}?wait=15s")

    async def _build_result(self) -> None:
        """A one-shot wait for two halves of a build; one client in four hangs up before it is done."""
        number = next(self._number)
        keys = [f"build:{number}:tests", f"build:{number}:image"]
        path = f"/v1/wait?key={keys[0]}&key={keys[1]}&need=all&wait=8s"
        if self._happens(0.25):
            connection = await self._pool.take()
            await connection.send("GET", path)
            try:
                await self._after_a_while(1.0)
            finally:
                connection.hang_up()
            return
        async with anyio.create_task_group() as halves:
            for key in keys:
                halves.start_soon(self._guarded, lambda key=key: self._signal(key, 0.8))
            await self._pool.request("GET", path)

    async def _slow_approval(self) -> None:
        """A person decides within the minute, or nobody does: the long tail that is always pending."""
        key = f"approval:{next(self._number)}"
        order = {"keys": [key], "timeout": "30s", "data": {"who": "somebody"}}
        reply = await self._pool.request("POST", "/v1/operations", order)
        await self._after_a_while(15.0)
        if self._happens(0.5):
            await self._pool.request("POST", reply.headers["location"] + "/complete", {"result": "approved"})

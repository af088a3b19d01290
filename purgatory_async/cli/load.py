"""The demo's load: clients over real sockets, with the typical uses of a purgatory and of a job queue.

Some arrive at random, some stay. Some disconnect, some replicas never answer, some operations expire and some workers
die, so that every outcome shows. Delays are log-normal, like the latencies of real systems: most are short, some very
long.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from math import ceil
from typing import Final

import anyio
import msgspec

from purgatory_async import Timer
from purgatory_async.cli.connection import Connection, Pool
from purgatory_async.client import AsyncClient, ServiceError

MAX_CLIENTS: Final = 5_000  # beyond, arrivals are skipped: a demo must not collapse under its own clients
QUEUE: Final = "/v1/queues/thumbnails"
LEASE: Final = "3s"  # much longer than a job, and short enough to see a lease expire
PARTITIONS: Final = 4
_LATENCIES: Final = 1_000
_LEAST_WORKERS: Final = 3
_ARRIVALS_PER_WORKER: Final = 20.0  # per second; leaves each worker idle time
_TAKEN: Final = 200
_ACCEPTED: Final = 202
_NOTHING: Final = 204

Scenario = Callable[[], Awaitable[None]]


class Load:
    """Clients, each with a small scenario of its own; ``rate`` new ones arrive per second.

    Attributes:
        latencies: The latencies of the last signals, in seconds.
        events: How many were read.
    """

    def __init__(self, pool: Pool, address: str, rate: float, chance: random.Random) -> None:
        self.latencies: Final[deque[float]] = deque(maxlen=_LATENCIES)
        self.events = 0
        self._pool: Final = pool
        self._address: Final = address
        self._rate: Final = rate
        self._chance: Final = chance
        self._timer: Final = Timer()
        self._numbers: Final = count(1)
        self._clients = 0
        self._weights: Final[Mapping[Scenario, int]] = {
            self._replicated_write: 30,
            self._partitioned_fetch: 20,
            self._tracked_order: 20,
            self._build_result: 20,
            self._order_job: 15,
            self._slow_approval: 10,
        }

    async def run(self) -> None:
        """Let clients arrive until cancelled."""
        scenarios, weights = list(self._weights), list(self._weights.values())
        crew = max(_LEAST_WORKERS, ceil(self._rate / _ARRIVALS_PER_WORKER))
        async with anyio.create_task_group() as tasks:
            for lasting in (self._produce, self._read_events, *[self._work] * crew):
                tasks.start_soon(self._play, lasting)
            while True:
                await self._timer.sleep(self._chance.expovariate(self._rate))
                if self._clients < MAX_CLIENTS:
                    [scenario] = self._chance.choices(scenarios, weights)
                    tasks.start_soon(self._play, scenario)

    async def _play(self, scenario: Scenario) -> None:
        """Run one client, to its end or until the service is gone."""
        self._clients += 1
        try:
            await scenario()
        except* (OSError, EOFError, ServiceError):
            pass  # the service is stopping
        finally:
            self._clients -= 1

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    async def _after_a_while(self, median: float) -> None:
        await self._timer.sleep(self._chance.lognormvariate(0, 0.8) * median)

    async def _signal(self, key: str, median: float, **body: object) -> None:
        await self._after_a_while(median)
        begun = self._timer.time()
        await self._pool.request("POST", f"/v1/keys/{key}/signal", body)
        self.latencies.append(self._timer.time() - begun)

    async def _submit(self, order: Mapping[str, object]) -> str | None:
        """Submit an operation; returns its location, or None if the service refuses it."""
        reply = await self._pool.request("POST", "/v1/operations", order)
        return reply.headers["location"] if reply.status == _ACCEPTED else None

    # Clients that stay.

    async def _read_events(self) -> None:
        """Follow the events of every operation, as an auditor would."""
        async with AsyncClient(self._address) as client:
            async for _ in client.events():
                self.events += 1

    async def _produce(self) -> None:
        """Append to the partitions that others fetch from, until cancelled."""
        while True:
            partition = self._chance.randrange(PARTITIONS)
            await self._signal(f"topic:{partition}", 0.03, amount=self._chance.randint(10, 200))

    async def _work(self) -> None:
        """Do jobs until cancelled; a worker that dies is replaced after a while."""
        while True:
            connection = await self._pool.take()
            try:
                while await self._do_one(connection):
                    pass
            finally:
                connection.hang_up()
            await self._after_a_while(1.0)

    async def _do_one(self, connection: Connection) -> bool:
        """Lease a job and do it, or return one in ten; returns False if this worker died."""
        await connection.send("POST", f"{QUEUE}/take?wait=5s", {"lease": LEASE})
        if self._happens(0.02):
            # It dies while it waits: the service returns its item, if any, to the queue at once.
            await self._after_a_while(0.1)
            return False
        reply = await connection.receive()
        if reply.status != _TAKEN:
            return reply.status == _NOTHING and connection.usable
        lease = msgspec.json.decode(reply.body)["lease"]
        await self._after_a_while(0.1)
        if self._happens(0.05):
            return False  # dies with its lease: the job returns when that expires
        how = "return" if self._happens(0.1) else "ack"
        await connection.send("POST", f"/v1/leases/{lease}/{how}")
        await connection.receive()
        return connection.usable

    # Clients that arrive.

    async def _replicated_write(self) -> None:
        """Kafka's DelayedProduce: acknowledged once two of three replicas have it."""
        key = f"commit:{next(self._numbers)}"
        async with anyio.create_task_group() as replicas:
            for name in ("a", "b", "c"):
                if self._happens(0.85):
                    replicas.start_soon(self._play, lambda voter=name: self._signal(key, 0.1, voter=voter))
            order = {"keys": [key], "need": {"voters": 2}, "timeout": "2s"}
            await self._pool.request("POST", "/v1/operations?wait=5s", order)

    async def _partitioned_fetch(self) -> None:
        """Kafka's DelayedFetch: enough bytes over several partitions, or half a second."""
        keys = [f"topic:{number}" for number in range(PARTITIONS)]
        least = self._chance.randint(200, 2000)
        order = {"keys": keys, "need": {"amount": least}, "timeout": "500ms"}
        await self._pool.request("POST", "/v1/operations?wait=1s", order)

    async def _tracked_order(self) -> None:
        """Submit, then poll for the outcome; one in eight cancels."""
        number = next(self._numbers)
        keys = [f"order:{number}:shipped", f"order:{number}:refused"]
        location = await self._submit({"keys": keys, "timeout": "10s", "data": {"order": number}})
        if location is None:
            return
        async with anyio.create_task_group() as tasks:
            if self._happens(0.125):
                await self._after_a_while(0.3)
                await self._pool.request("DELETE", location)
            else:
                tasks.start_soon(self._play, lambda: self._signal(keys[0], 1.0, value={"carrier": "sea"}))
                await self._pool.request("GET", f"{location}?wait=15s")

    async def _build_result(self) -> None:
        """A one-shot wait for both halves of a build; one client in four disconnects early."""
        number = next(self._numbers)
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
                halves.start_soon(self._play, lambda key=key: self._signal(key, 0.8))
            await self._pool.request("GET", path)

    async def _order_job(self) -> None:
        """Submit a job."""
        job = {"item": {"picture": next(self._numbers), "width": 320}}
        await self._pool.request("POST", f"{QUEUE}/items", job)

    async def _slow_approval(self) -> None:
        """Wait for a person, who answers half of the requests: a long tail of pending operations."""
        key = f"approval:{next(self._numbers)}"
        location = await self._submit({"keys": [key], "timeout": "30s", "data": {"who": "a reviewer"}})
        await self._after_a_while(15.0)
        if location is not None and self._happens(0.5):
            await self._pool.request("POST", f"{location}/complete", {"result": "approved"})

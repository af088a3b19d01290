"""The demo's clients that wait for signals on keys.

Some disconnect, some replicas never answer and some operations expire, so that every outcome shows.
"""

from collections.abc import Mapping
from typing import Final

import anyio

from purgatory_async.cli.actors import Actors, Scenario, Stage

__all__ = ["Waiters"]

PARTITIONS: Final = 4
_ACCEPTED: Final = 202


class Waiters(Actors):
    """Clients with the typical uses of a purgatory; ``scenarios`` has each one's weight."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.scenarios: Final[Mapping[Scenario, int]] = {
            self._replicated_write: 30,
            self._partitioned_fetch: 20,
            self._tracked_order: 20,
            self._build_result: 20,
            self._slow_approval: 10,
        }

    async def produce(self) -> None:
        """Append to the partitions that others fetch from, until cancelled."""
        while True:
            partition = self._stage.chance.randrange(PARTITIONS)
            await self._signal(f"topic:{partition}", 0.03, amount=self._stage.chance.randint(10, 200))

    async def _replicated_write(self) -> None:
        """Kafka's DelayedProduce: acknowledged once two of three replicas have it."""
        key = f"commit:{self._number()}"
        async with anyio.create_task_group() as replicas:
            for name in ("a", "b", "c"):
                if self._happens(0.85):
                    replicas.start_soon(
                        self._stage.play, lambda voter=name: self._signal(key, 0.1, voter=voter)
                    )
            order = {"keys": [key], "need": {"voters": 2}, "timeout": "2s"}
            await self._pool.request("POST", "/v1/operations?wait=5s", order)

    async def _partitioned_fetch(self) -> None:
        """Kafka's DelayedFetch: enough bytes over several partitions, or half a second."""
        keys = [f"topic:{number}" for number in range(PARTITIONS)]
        least = self._stage.chance.randint(200, 2000)
        order = {"keys": keys, "need": {"amount": least}, "timeout": "500ms"}
        await self._pool.request("POST", "/v1/operations?wait=1s", order)

    async def _tracked_order(self) -> None:
        """Submit, then poll for the outcome; one in eight cancels."""
        number = self._number()
        keys = [f"order:{number}:shipped", f"order:{number}:refused"]
        location = await self._submit({"keys": keys, "timeout": "10s", "data": {"order": number}})
        if location is None:
            return
        async with anyio.create_task_group() as tasks:
            if self._happens(0.125):
                await self._after_a_while(0.3)
                await self._pool.request("DELETE", location)
            else:
                tasks.start_soon(
                    self._stage.play, lambda: self._signal(keys[0], 1.0, value={"carrier": "sea"})
                )
                await self._pool.request("GET", f"{location}?wait=15s")

    async def _build_result(self) -> None:
        """A one-shot wait for both halves of a build; one client in four disconnects early."""
        number = self._number()
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
                halves.start_soon(self._stage.play, lambda key=key: self._signal(key, 0.8))
            await self._pool.request("GET", path)

    async def _slow_approval(self) -> None:
        """Wait for a person, who answers half of the requests: a long tail of pending operations."""
        key = f"approval:{self._number()}"
        location = await self._submit({"keys": [key], "timeout": "30s", "data": {"who": "a reviewer"}})
        await self._after_a_while(15.0)
        if location is not None and self._happens(0.5):
            await self._pool.request("POST", f"{location}/complete", {"result": "approved"})

    async def _submit(self, order: Mapping[str, object]) -> str | None:
        """Submit an operation; returns its location, or None if the service refuses it."""
        reply = await self._pool.request("POST", "/v1/operations", order)
        return reply.headers["location"] if reply.status == _ACCEPTED else None

"""The demo's job queue: workers lease items, and return them when they give up or die."""

from typing import Final

import msgspec

from purgatory_async.cli.actors import Actors
from purgatory_async.cli.connection import Connection

__all__ = ["Workers"]

QUEUE: Final = "/v1/queues/thumbnails"
LEASE: Final = "3s"  # much longer than a job, and short enough to see a lease expire
_TAKEN: Final = 200
_NOTHING: Final = 204


class Workers(Actors):
    """Clients that submit jobs, and the workers that do them."""

    async def order(self) -> None:
        """Submit a job."""
        await self._pool.request(
            "POST", f"{QUEUE}/items", {"item": {"picture": self._number(), "width": 320}}
        )

    async def work(self) -> None:
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

"""The demo's job queue: items are taken on loan, and come back from workers that give up or die."""

from typing import Final

import msgspec

from purgatory_async.cli.actors import Actors
from purgatory_async.cli.connection import Connection

__all__ = ["Workers"]

QUEUE: Final = "/v1/queues/thumbnails"
LEASE: Final = "3s"  # much longer than a job takes, and short enough to see one come back
_TAKEN: Final = 200
_NOTHING: Final = 204


class Workers(Actors):
    """Those who have jobs to do, and those who do them."""

    async def order(self) -> None:
        """Put a job into the queue."""
        await self._pool.request(
            "POST", f"{QUEUE}/items", {"item": {"picture": self._number(), "width": 320}}
        )

    async def work(self) -> None:
        """Do one job after the other; who dies is replaced after a while. Until cancelled."""
        while True:
            connection = await self._pool.take()
            try:
                while await self._do_one(connection):
                    pass
            finally:
                connection.hang_up()
            await self._after_a_while(1.0)

    async def _do_one(self, connection: Connection) -> bool:
        """Take a job and do it: most are done, one in ten is given back; False if this worker is no more."""
        await connection.send("POST", f"{QUEUE}/take?wait=5s", {"lease": LEASE})
        if self._happens(0.02):
            # It dies while it waits: its item, if it is given one, is back in its queue at once.
            await self._after_a_while(0.1)
            return False
        reply = await connection.receive()
        if reply.status != _TAKEN:
            return reply.status == _NOTHING and connection.usable
        lease = msgspec.json.decode(reply.body)["lease"]
        await self._after_a_while(0.1)
        if self._happens(0.05):
            return False  # with its lease: the job comes back when that ends
        how = "return" if self._happens(0.1) else "ack"
        await connection.send("POST", f"/v1/leases/{lease}/{how}")
        await connection.receive()
        return connection.usable

"""Clients that come again and again, and count each time they were not served."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from bench.service.channel import Channel, open_channel
from bench.service.dialects import request

__all__ = ["FAILURES", "HOLD_S", "REQUESTS", "Visitors"]

HOLD_S = 2
SENT_AWAY = frozenset({410, 503})  # nchan answers a reload with 410
# Every other request is held, so a restart finds both.
REQUESTS = (request("GET", "/v1/keys/a"), request("GET", f"/v1/wait?key=a&wait={HOLD_S}s"))
FAILURES = ("refused", "reset", "lost")


class Visitors:
    """Clients in a loop; each second one keeps its connection until the server closes it.

    Args:
        port: The port of the service.
        number: How many there are.
        requests: What each sends in turn.

    Attributes:
        counts: ``answered``, of these ``draining`` (503, or nchan's 410); and the `FAILURES`: connections that were
            refused or reset, and requests on a connection that was closed without an answer.
    """

    def __init__(self, port: int, number: int, requests: Sequence[bytes] = REQUESTS) -> None:
        self._port = port
        self._number = number
        self._requests = requests
        self._ended = asyncio.Event()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Go on until `end`; then every client finishes its request."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._number):
                tasks.create_task(self._visit(keeps=number % 2 == 1))

    def end(self) -> None:
        """Let no client ask again."""
        self._ended.set()

    async def _visit(self, *, keeps: bool) -> None:
        channel: Channel | None = None
        asked = 0
        while not self._ended.is_set():
            try:
                if channel is None or channel.closed:
                    channel = await open_channel(self._port)
                answer = await channel.ask(self._requests[asked % len(self._requests)])
            except OSError as error:
                self.counts[_failure(error)] += 1
                await asyncio.sleep(0.1)  # or the failures of one client would crowd out the others
            else:
                asked += 1
                self.counts["answered"] += 1
                self.counts["draining"] += answer.status in SENT_AWAY
                if answer.last or not keeps:
                    channel.close()
        if channel is not None:
            channel.close()


def _failure(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    return "lost" if error.errno is None else "reset"  # a connection that ends in order has no error number

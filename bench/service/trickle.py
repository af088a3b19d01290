"""Clients that take their time: they send some of a request, and then a byte now and then."""

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from bench.service.crowd import AT_ONCE, source_address
from bench.service.dialects import request

__all__ = ["KINDS", "SlowClient", "connect_all", "trickle"]

PERIOD_S = 1.0
_BODY = request("POST", "/v1/operations", b'{"keys": ["slow"]}' + b" " * 500)

# What each sends at once, and what byte by byte.
KINDS: dict[str, tuple[bytes, bytes]] = {
    "silent": (b"", b""),
    "head": (b"GET /", b"a" * 500),
    "body": (_BODY[:-500], _BODY[-500:]),
}


class SlowClient(asyncio.Protocol):
    """One of them.

    Args:
        begin: What it sends at once.
        rest: What it sends byte by byte.

    Attributes:
        received: The bytes of the answer.
        lasted_s: From connecting until the server ended the connection, in seconds; None until then.
    """

    def __init__(self, begin: bytes, rest: bytes) -> None:
        self.received = b""
        self.lasted_s: float | None = None
        self._begin = begin
        self._rest = iter(rest)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._connected = time.perf_counter()
        if self._begin:
            self._transport.write(self._begin)

    def data_received(self, data: bytes) -> None:
        """Keep what comes."""
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went, it is over
        """Note how long it lasted."""
        if self.lasted_s is None:
            self.lasted_s = time.perf_counter() - self._connected

    def send_a_byte(self) -> None:
        """Send the next byte, if one is left and the connection is open."""
        byte = next(self._rest, None)
        if byte is not None and not self._transport.is_closing():
            self._transport.write(bytes((byte,)))

    def abort(self) -> None:
        """End without a word."""
        self._transport.abort()


async def connect_all(port: int, clients: Sequence[SlowClient]) -> None:
    """Connect slow clients, a hundred at a time.

    Args:
        port: The port of the server.
        clients: New ones.

    Raises:
        OSError: A connection cannot be made.
    """
    for begin in range(0, len(clients), AT_ONCE):
        group = enumerate(clients[begin : begin + AT_ONCE], begin)
        await asyncio.gather(*(_connect(port, number, client) for number, client in group))


async def _connect(port: int, number: int, client: SlowClient) -> None:
    loop, source = asyncio.get_running_loop(), (source_address(number), 0)
    await loop.create_connection(lambda: client, "127.0.0.1", port, local_addr=source)


async def trickle(clients: Sequence[SlowClient], patience_s: float) -> bool:
    """Let each client send a byte a second, spread over the second, until the server has closed all.

    Args:
        clients: Connected ones.
        patience_s: After so many seconds it is given up.

    Returns:
        Whether all were closed.
    """
    give_up = time.perf_counter() + patience_s
    while any(client.lasted_s is None for client in clients):
        if time.perf_counter() > give_up:
            return False
        for begin in range(0, len(clients), AT_ONCE):
            for client in clients[begin : begin + AT_ONCE]:
                client.send_a_byte()
            await asyncio.sleep(PERIOD_S * AT_ONCE / len(clients))
    return True

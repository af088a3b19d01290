"""A connection to another broker of the cluster, as a client of it."""

import asyncio
from itertools import count
from struct import Struct
from typing import Any, Final, Protocol, Self

from purgatory_async import Timer
from purgatory_async.kafka import wire

__all__ = ["Other", "Peer"]

_LENGTH: Final = Struct(">i")


class Other(Protocol):
    """Another broker, as it can be asked; a `Peer` or a test's."""

    def hang_up(self) -> None:
        """Give it up: the request in flight raises EOFError."""
        ...

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        """Send a request, and return the response as kio's entity.

        Raises:
            OSError, EOFError: The other broker is lost.
        """
        ...


class Peer:
    """One request at a time. An async context manager: entering connects, leaving disconnects.

    Args:
        host: The other broker's.
        port: The other broker's.
        name: Given to the other broker as the client's.
        timer: Runs the patience.
        patience: Seconds without an answer after which the connection is given up.
    """

    def __init__(self, host: str, port: int, *, name: str, timer: Timer, patience: float) -> None:
        self._host: Final = host
        self._port: Final = port
        self._name: Final = name
        self._timer: Final = timer
        self._patience: Final = patience
        self._numbers: Final = count(1)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            OSError: The broker does not answer; TimeoutError if not in time.
        """
        async with asyncio.timeout(self._patience):
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Disconnect at once."""
        self._writer.transport.abort()

    def hang_up(self) -> None:
        """Give the connection up: the request in flight raises EOFError, and the other broker drops it. O(1)."""
        self._writer.transport.abort()

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        """Send a request, and return the response as kio's entity.

        Raises:
            OSError, EOFError: The connection is lost, or was given up.
        """
        number = next(self._numbers)
        silence = self._timer.call_later(self._patience, self.hang_up)
        try:
            self._writer.writelines(wire.encode_request(api_key, version, number, self._name, values))
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            frame = await self._reader.readexactly(length)
        finally:
            silence.cancel()
        answered, response = wire.read_response(api_key, version, frame)
        if answered != number:
            raise ConnectionError(f"the response must be to request {number}, got {answered}")
        return response

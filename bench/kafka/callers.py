"""Clients that send one request at a time and note when its response has come; many fit into one process.

Frames are made ahead and responses are read afterwards, so that little of what is timed is the client's.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from bench.service.crowd import all_files, source_address
from purgatory_async.kafka import wire

__all__ = ["Caller", "callers", "frame", "last_answer_s"]

_LENGTH_BYTES: Final = 4
_AT_ONCE: Final = 100  # connections that are being made at a time


def frame(api_key: int, version: int, **values: Any) -> bytes:
    """Make a request with kio's field names."""
    return b"".join(wire.encode_request(api_key, version, 1, "bench", values))


class Caller(asyncio.Protocol):
    """One connection.

    Attributes:
        answered_at: When the last response had come, by `time.perf_counter`.
    """

    __slots__ = ("_answer", "_buffer", "answered_at", "transport")

    def __init__(self) -> None:
        self.answered_at = 0.0
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the result is its response without the length."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer

    async def read(self, api_key: int, version: int, **values: Any) -> Any:
        """Ask, and read the response with kio.

        Raises:
            ConnectionError: The connection was closed, or the response follows another schema.
        """
        return wire.read_response(api_key, version, await self.ask(frame(api_key, version, **values)))[1]

    def data_received(self, data: bytes) -> None:
        """Note the time of the response's last byte."""
        self._buffer += data
        end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        if len(self._buffer) >= max(end, _LENGTH_BYTES) and self._answer is not None:
            self.answered_at = time.perf_counter()
            self._answer.set_result(bytes(self._buffer[_LENGTH_BYTES:end]))
            del self._buffer[:end]

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is not answered."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the broker must answer, got {exc or 'its end'}"))


@asynccontextmanager
async def callers(address: str, number: int) -> AsyncIterator[list[Caller]]:
    """Connect many clients; leaving drops their connections.

    Raises:
        OSError: A connection cannot be made.
    """
    host, _, port = address.rpartition(":")
    loop, made = asyncio.get_running_loop(), list[Caller]()

    async def connect(numbers: Iterator[int]) -> None:
        for each in numbers:
            _, caller = await loop.create_connection(
                Caller, host, int(port), local_addr=(source_address(each), 0)
            )
            made.append(caller)

    with all_files():
        try:
            numbers = iter(range(number))
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(_AT_ONCE, number)):
                    tasks.create_task(connect(numbers))
            yield made
        finally:
            for caller in made:
                caller.transport.abort()


async def last_answer_s(asked: list[Caller], answers: list[asyncio.Future[bytes]], since: float) -> float:
    """Wait for all answers; return the seconds from ``since`` to the last of them.

    Raises:
        ConnectionError: A connection was closed without one.
    """
    await asyncio.gather(*answers)
    return max(caller.answered_at for caller in asked) - since

"""A client on a real socket that sends any bytes, and reads responses in the order they come."""

import asyncio
import time
from typing import Any, Self

from tests.kafka import protocol

PATIENCE_S = 60


async def until(condition) -> None:
    """Wait until a condition holds, a turn of the loop at a time."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0)


class PlainClient:
    """One connection to a broker."""

    def __init__(self, broker) -> None:
        self._address = broker.host, broker.port
        self._asked: dict[int, tuple[int, int]] = {}

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._writer.transport.abort()

    def send(self, key: int, version: int, /, *, correlation_id: int = 1, **values: Any) -> None:
        self._asked[correlation_id] = key, version
        self.send_frame(protocol.request_frame(key, version, correlation_id, **values))

    def send_frame(self, frame: bytes) -> None:
        self._writer.write(protocol.with_length(frame))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def response(self) -> tuple[int, Any]:
        """The next response's correlation id and entity."""
        frame = await self.frame()
        key, version = self._asked.pop(int.from_bytes(frame[:4], "big"))
        return protocol.response(key, version, frame)

    async def frame(self) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(length)

    async def ask(self, key: int, version: int, /, **values: Any) -> Any:
        self.send(key, version, **values)
        return (await self.response())[1]

    async def closed(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True

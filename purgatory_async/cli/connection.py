"""A minimal HTTP/1.1 client for the demo, over asyncio's streams.

Every answer of the service has a length or no body, so it reads a head and then that many bytes.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Self

import msgspec

_NO_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; its headers have lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """A connection that stays open between requests; ``host`` is for the ``Host`` header."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host
        self.usable = True

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect; raises OSError if nothing listens there."""
        return cls(*await asyncio.open_connection(host, port), f"{host}:{port}")

    async def send(self, method: str, path: str, message: object = None) -> None:
        """Send a request; ``path`` includes the query, percent-encoded, and ``message`` is sent as JSON."""
        body = b"" if message is None else msgspec.json.encode(message)
        kind = "" if message is None else "Content-Type: application/json\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def receive(self) -> Reply:
        """Read the answer to the last request; raises EOFError if the server closed the connection."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        length = 0 if status in _NO_BODY else int(headers.get("content-length", "0"))
        self.usable = headers.get("connection", "").lower() != "close"
        return Reply(status, headers, await self._reader.readexactly(length))

    def hang_up(self) -> None:
        """Abort the connection, like a client that crashed."""
        self.usable = False
        self._writer.transport.abort()


class Pool:
    """Connections to one address, each reused once its answer is read."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._idle: list[Connection] = []

    async def take(self) -> Connection:
        """Return an idle connection or open one; raises OSError if nothing listens there."""
        return self._idle.pop() if self._idle else await Connection.open(self._host, self._port)

    async def request(self, method: str, path: str, message: object = None) -> Reply:
        """Send a request as `Connection.send` does, and read its answer.

        Raises:
            OSError: Nothing listens there.
            EOFError: The server closed the connection.
        """
        connection = await self.take()
        try:
            await connection.send(method, path, message)
            reply = await connection.receive()
        except BaseException:
            # Also when cancelled: the next request would read this unread answer as its own.
            connection.hang_up()
            raise
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.hang_up()
        return reply

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().hang_up()

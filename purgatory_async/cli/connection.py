"""The demo's clients: HTTP/1.1 over asyncio's streams, as much of it as talking to our own server takes.

Every answer of the service has a length or no body, so reading one is a head and a count.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Self

import msgspec

_NO_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, headers by lower-case name, and body."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection that stays open between requests.

    Args:
        reader: Of the connection.
        writer: Of the connection.
        host: For the ``Host`` header.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host
        self.usable = True

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect.

        Args:
            host: Address.
            port: Number.

        Returns:
            The connection.

        Raises:
            OSError: Unowned answers there.
        """
        return cls(*await asyncio.open_connection(host, port), f"{host}:{port}")

    async def send(self, method: str, path: str, message: object = None) -> None:
        """Send a request.

        Args:
            method: Of HTTP.
            path: With its query, percent-encoded.
            message: The JSON body; None for none.
        """
        body = b"" if message is None else msgspec.json.encode(message)
        kind = "" if message is None else "Content-Type: application/json\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def receive(self) -> Reply:
        """Read the answer to the request sent last.

        Returns:
            The answer.

        Raises:
            EOFError: The server closed the connection.
        """
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        length = 0 if status in _NO_BODY else int(headers.get("content-length", "0"))
        self.usable = headers.get("connection", "").lower() != "close"
        return Reply(status, headers, await self._reader.readexactly(length))

    def hang_up(self) -> None:
        """Leave without a word, as a client does that crashed."""
        self.usable = False
        self._writer.transport.abort()


class Pool:
    """Connections to one address, used again once their answer is read.

    Args:
        host: Address.
        port: Number.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._idle: list[Connection] = []

    async def take(self) -> Connection:
        """Return an idle connection or open one.

        Raises:
            OSError: Unowned answers there.
        """
        return self._idle.pop() if self._idle else await Connection.open(self._host, self._port)

    async def request(self, method: str, path: str, message: object = None) -> Reply:
        """Send a request and read its answer.

        Args:
            method: Of HTTP.
            path: With its query, percent-encoded.
            message: The JSON body; None for none.

        Returns:
            The answer.

        Raises:
            OSError: Unowned answers there.
            EOFError: The server closed the connection.
        """
        connection = await self.take()
        try:
            await connection.send(method, path, message)
            reply = await connection.receive()
        except BaseException:
            # Also when cancelled: an answer that nobody read would be taken for the next one's.
            connection.hang_up()
            raise
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.hang_up()
        return reply

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().hang_up()

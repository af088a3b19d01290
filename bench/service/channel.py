"""A connection that is kept, for one request after another, or many at once: answers come in order."""

import asyncio
from collections import deque
from typing import cast

from bench.service.answers import Answer, take_answer

__all__ = ["Channel", "open_channel"]


class Channel(asyncio.Protocol):
    """The client's end of a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._asked: deque[asyncio.Future[Answer]] = deque()

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request now, behind whatever was asked before.

        Args:
            request: All of it.

        Returns:
            Its answer; fails with `ConnectionError` if the connection ends before.
        """
        answer = asyncio.get_running_loop().create_future()
        if self._transport.is_closing():  # uvloop refuses to write then
            answer.set_exception(ConnectionResetError("the connection is closed"))
            return answer
        self._asked.append(answer)
        self._transport.write(request)
        return answer

    @property
    def closed(self) -> bool:
        """Whether either end has closed it, as far as is known here."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand out the answers that are whole."""
        self._buffer += data
        while (answer := take_answer(self._buffer)) is not None:
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Signal all remaining waiters."""
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(exc or ConnectionResetError("the server closed the connection"))
        self._asked.clear()


async def open_channel(port: int) -> Channel:
    """Connect to a server on this machine.

    Args:
        port: Its.

    Returns:
        The connection.

    Raises:
        OSError: Nothing listens there.
    """
    _, channel = await asyncio.get_running_loop().create_connection(Channel, "127.0.0.1", port)
    return channel

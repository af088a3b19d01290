"""Opens the connections of a server's sockets, and ends them when it stops."""

import asyncio
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from purgatory_async.service.http.connection import Connection
from purgatory_async.service.http.context import ServerContext

POLL: Final = 0.05  # seconds between two looks at what is left
# Since 3.13 a loop would remove a Unix socket's file, also if it is the service manager's or the other workers'.
_KEEP_FILE: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class Front:
    """The listening side of a server.

    Args:
        context: What its connections share.
        tasks: The tasks that answer requests, beyond the connections.
    """

    def __init__(self, context: ServerContext, tasks: Collection[asyncio.Task[Any]]) -> None:
        self._context: Final = context
        self._tasks: Final = tasks
        self._servers: list[asyncio.Server] = []

    def __repr__(self) -> str:
        return f"<Front sockets={len(self._servers)} connections={len(self._context.connections)}>"

    async def listen(self, sockets: Sequence[socket.socket], backlog: int) -> None:
        """Accept connections on bound sockets."""
        loop = asyncio.get_running_loop()
        for sock in sockets:
            # uvloop takes every socket of `create_server` for TCP's.
            if sock.family == socket.AF_UNIX:
                server = await loop.create_unix_server(
                    self._connection, sock=sock, backlog=backlog, **_KEEP_FILE
                )
            else:
                server = await loop.create_server(self._connection, sock=sock, backlog=backlog)
            self._servers.append(server)

    async def stop_accepting(self, waiting: Iterable[socket.socket]) -> None:
        """Close the sockets, serve connections that were accepted elsewhere, and let every connection end."""
        for server in self._servers:
            server.close()
        for sock in waiting:
            with suppress(OSError):  # the client has left
                await asyncio.get_running_loop().connect_accepted_socket(self._connection, sock)
        for connection in list(self._context.connections):
            connection.shutdown()

    async def ended(self, seconds: float, hurried: Callable[[], bool]) -> None:
        """Wait until all connections and tasks have ended, then cut those that have not.

        Args:
            seconds: How long to wait.
            hurried: Whether to cut them now.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until and not hurried():
            if not (self._context.connections or self._tasks):
                return
            await asyncio.sleep(POLL)
        for connection in list(self._context.connections):
            connection.cut()
        for task in list(self._tasks):
            task.cancel()

    def _connection(self) -> Connection:
        return Connection(self._context)

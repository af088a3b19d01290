"""The broker: listens, and serves the connections of Kafka clients."""

import asyncio
from typing import Any, Final, Self

from purgatory_async import Timer
from purgatory_async.kafka.connection import Connection
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.settings import Settings

__all__ = ["Broker"]

_SCRATCH_BYTES: Final = 1 << 18
_BACKLOG: Final = 4096
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on


class Broker:
    """A Kafka broker in memory, on the running loop. An async context manager: leaving it closes it.

    No security, no transactions, and everything is lost when it closes.

    Args:
        host: The address to listen on, which clients are told too.
        port: 0 for a free one.
        id: Its number in the cluster.
        advertised_host: Told to clients instead of ``host``, as for a broker on all interfaces.
        timer: Expires what waits; if not given, it makes its own.
        settings: See `Settings` for names, units and defaults.

    Raises:
        ValueError: A setting is out of bounds, or ``advertised_host`` is missing.
        TypeError: There is no such setting.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     async with Broker(partitions=3) as broker:
        ...         return broker.address.startswith("127.0.0.1:")
        >>> asyncio.run(main())
        True
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        id: int = 0,  # noqa: A002 - Kafka's name
        advertised_host: str | None = None,
        timer: Timer | None = None,
        **settings: Any,
    ) -> None:
        if advertised_host is None and host in _EVERY_INTERFACE:
            raise ValueError(
                f"advertised_host must be given with host {host!r}, which clients cannot connect to"
            )
        self.host: Final = host
        self.port = port
        self.node: Final = Node(Settings(**settings), id=id, timer=timer)
        self.scratch: Final = memoryview(bytearray(_SCRATCH_BYTES))
        self._advertised_host: Final = host if advertised_host is None else advertised_host
        self._connections: Final[set[Connection]] = set()
        self._server: asyncio.Server | None = None
        self._emptied: asyncio.Event | None = None  # once it closes: set when no connection is left

    def __repr__(self) -> str:
        return f"<Broker {self.node.id} at {self.address} connections={len(self._connections)}>"

    @property
    def address(self) -> str:
        """What clients are given as ``bootstrap.servers``."""
        return f"{self._advertised_host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: The address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=_BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.node.addresses[self.node.id] = (self._advertised_host, self.port)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop listening, drop every connection, end every wait."""
        assert self._server is not None, f"{self!r} was not entered"
        self._server.close()
        self._emptied = asyncio.Event()
        for connection in tuple(self._connections):
            connection.close()
        if self._connections:
            await self._emptied.wait()
        self.node.close()

    def opened(self, connection: Connection) -> bool:
        """Count a connection; False refuses it."""
        if self._emptied is not None or len(self._connections) >= self.node.settings.max_connections:
            return False
        self._connections.add(connection)
        return True

    def lost(self, connection: Connection) -> None:
        """Forget a connection whose held request has ended too."""
        self._connections.discard(connection)
        if self._emptied is not None and not self._connections:
            self._emptied.set()

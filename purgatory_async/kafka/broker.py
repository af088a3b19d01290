"""The broker: listens, and serves the connections of Kafka clients."""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Self

from purgatory_async import Observer, Timer
from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.connection import Connection
from purgatory_async.kafka.inbox import Inbox
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.replication.recovery import recover
from purgatory_async.kafka.replication.replication import Replication
from purgatory_async.kafka.settings import Settings

__all__ = ["Broker"]

_EPOCH_BEGINS_S: Final = 1_767_225_600  # 2026: 31 bits of quarter seconds last for 17 years
_EPOCHS_PER_S: Final = 4  # no process starts, stops and starts again within one
_SCRATCH_BYTES: Final = 1 << 18
_BACKLOG: Final = 4096
_TURNS_OF_AN_ACCEPT: Final = 10  # at least, until the connection is made and refused
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on


class Broker:
    """A Kafka broker in memory, on the running loop. An async context manager: leaving it closes it.

    No security, no transactions, and everything is lost when it closes.

    Args:
        host: The address to listen on, which clients get, too.
        port: 0 for a free one.
        id: Its number in the cluster.
        advertised_host: Told to clients instead of ``host``, as for a broker on all interfaces.
        nodes: Host and port of every broker of the cluster, this one included, by number: all brokers must be given
            the same. None for this one alone.
        timer: Expires what waits; if not given, it makes its own.
        observer: Hears of every request that waits, as of a purgatory's operations.
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
        nodes: Mapping[int, tuple[str, int]] | None = None,
        timer: Timer | None = None,
        observer: Observer | None = None,
        **settings: Any,
    ) -> None:
        if advertised_host is None and host in _EVERY_INTERFACE:
            raise ValueError(
                f"advertised_host must be given with host {host!r}, which clients cannot connect to"
            )
        if nodes is not None:
            advertised_host, port = _own_address(nodes, id, port)
        self.host: Final = host
        self.port = port
        epoch = _epoch() if nodes else 0
        self.node: Final = Node(
            Settings(**settings), id=id, brokers=nodes, epoch=epoch, timer=timer, observer=observer
        )
        self.node.addresses.update(nodes or {})
        self.scratch: Final = memoryview(bytearray(_SCRATCH_BYTES))
        self.inbox: Final = Inbox(self.node.settings.max_receive_bytes, self.node.timer)
        self._advertised_host: Final = host if advertised_host is None else advertised_host
        self._connections: Final[set[Connection]] = set()
        self._server: asyncio.Server | None = None
        self._away = False  # it accepts no connection
        self._replication: Replication | None = None
        self._emptied: asyncio.Event | None = None  # once it closes: set when no connection is left

    def __repr__(self) -> str:
        return f"<Broker {self.node.id} at {self.address} connections={len(self._connections)}>"

    @property
    def address(self) -> str:
        """What clients are given as ``bootstrap.servers``."""
        return f"{self._advertised_host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Listen; a broker of several takes back first what the others have of it, see `recover`.

        Raises:
            OSError: The address cannot be listened on.
        """
        try:
            if len(self.node.addresses) > 1:
                await recover(self.node)
            await self._listen()
        except BaseException:
            self.node.close()
            raise
        self.node.addresses[self.node.id] = (self._advertised_host, self.port)
        if len(self.node.addresses) > 1:
            self._replication = Replication(self.node)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop listening, drop every connection, end every wait."""
        await self._hang_up()
        if self._replication is not None:
            await self._replication.close()
        self._emptied = asyncio.Event()
        if self._connections:
            await self._emptied.wait()
        self.node.close()

    def opened(self, connection: Connection) -> bool:
        """Count a connection; False refuses it."""
        if self._away or len(self._connections) >= self.node.settings.max_connections:
            return False
        self._connections.add(connection)
        return True

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def answer(self, api: Api, request: Any, client: Client) -> Answer | Awaitable[Answer]:
        """Serve a request: return the answer, or an awaitable of it if the request must wait."""
        return api.handle(self.node, request, client)

    async def _listen(self) -> None:
        """Accept connections; the first time on a free port, if none is given."""
        self._away = False
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Connection(self), self.host, self.port, backlog=_BACKLOG
            )
        except BaseException:
            self._away = True
            raise
        self.port = self._server.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        """Accept no connection any more, and drop those there are."""
        assert self._server is not None, f"{self!r} was not entered"
        self._away = True
        for _ in range(_TURNS_OF_AN_ACCEPT):  # asyncio would lose a connection that it is about to make
            await asyncio.sleep(0)
        self._server.close()
        for connection in tuple(self._connections):
            connection.close()

    def lost(self, connection: Connection) -> None:
        """Forget a connection whose held request has ended too."""
        self._connections.discard(connection)
        if self._emptied is not None and not self._connections:
            self._emptied.set()


def _own_address(nodes: Mapping[int, tuple[str, int]], number: int, port: int) -> tuple[str, int]:
    """Where the others find this broker."""
    if number not in nodes:
        raise ValueError(f"id must be one of nodes, {sorted(nodes)}, got {number}")
    if port not in {0, nodes[number][1]}:
        raise ValueError(
            f"port must be {nodes[number][1]}, as nodes says of broker {number}, got {port}; leave it out"
        )
    return nodes[number]


def _epoch() -> int:
    """Greater than at the start before, which clients and followers may remember: they ignore what is older."""
    return int((time.time() - _EPOCH_BEGINS_S) * _EPOCHS_PER_S)

"""The servers that stand beside each other: the service, nginx with nchan, and a handler written by hand."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from bench.service.beside.bare import Bare
from bench.service.beside.nchan import Nchan, reloaded
from bench.service.channel import open_channel
from bench.service.dialects import BARE, CONVERSATIONS, NCHAN, READ, Conversation, Dialect, request
from bench.service.restarting import BACKLOG, Restarted, passed, supervised
from bench.service.served import Served
from bench.service.visitors import HOLD_S, REQUESTS

__all__ = ["Peer", "PeerServer", "peers"]

# As long as nchan holds polls, without shortening any.
FLAGS: Final = ("--max-wait", "600s", "--jitter", "0")
_HELD: Final = b"\npurgatory_http_held{"


class PeerServer(Protocol):
    """A running server.

    Attributes:
        port: Where it listens.
        process: Its first process; any others are its children.
    """

    port: int
    process: Popen[Any]

    async def held(self) -> int:
        """How many requests it holds, in all its processes."""
        ...


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to serve long polls.

    Attributes:
        name: The name of the server and its processes.
        start: Starts it.
        dialect: How it is polled.
        visits: What clients ask in turn while it is restarted: something at once, and a poll of two seconds.
        restarted: Starts one that can be restarted as gracefully as it knows.
    """

    name: str
    start: Callable[[], AbstractContextManager[PeerServer]]
    dialect: Dialect
    visits: tuple[bytes, ...]
    restarted: Callable[[], AbstractAsyncContextManager[Restarted]]

    @property
    def conversation(self) -> Conversation:
        """How messages are exchanged over it."""
        return CONVERSATIONS[self.dialect.name]


class _Service(Served):
    """The service, whose workers are asked together."""

    async def held(self) -> int:
        """How many requests it holds, in all its workers."""
        channel = await open_channel(self.port)
        try:
            shown = (await channel.ask(request("GET", "/metrics"))).body
        finally:
            channel.close()
        return sum(int(float(line.split()[-1])) for line in shown.splitlines() if line.startswith(_HELD[1:]))


@contextmanager
def _service(workers: int) -> Iterator[PeerServer]:
    """Several workers need a store, which one does not."""
    with TemporaryDirectory(prefix="bench-peers-") as folder:
        store = ("--workers", str(workers), "--store", f"sqlite:///{folder}/state.db")
        with _Service(*FLAGS, *(store if workers > 1 else ())) as served:
            yield served


@contextmanager
def _bare() -> Iterator[PeerServer]:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as sock,
        Bare(sock.fileno()) as bare,
    ):
        yield bare


def peers(nginx: str) -> tuple[tuple[Peer, Peer], ...]:
    """Return the servers, each with the nchan that it is compared with: as many processes serve."""
    short = request("GET", f"/short/a{HOLD_S}")
    nchans = {
        workers: Peer(
            f"nchan, {workers}",
            partial(Nchan, nginx, workers),
            NCHAN,
            (request("GET", "/status"), short),
            partial(reloaded, nginx, workers),
        )
        for workers in (1, 2)
    }
    one = Peer("service, 1 in memory", partial(_service, 1), READ, REQUESTS, passed)
    two = Peer("service, 2 on SQLite", partial(_service, 2), READ, REQUESTS, supervised)
    visits = (request("GET", "/held"), request("GET", f"/keys/a?after=0&wait={HOLD_S}"))
    bare = Peer("Starlette handler, 1", _bare, BARE, visits, partial(passed, Bare))
    return (one, nchans[1]), (two, nchans[2]), (bare, nchans[1])

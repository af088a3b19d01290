"""Clients that come again: each way of not being served is counted as what it is."""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, closing

import pytest

from bench.service.visitors import Visitors

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

PATIENCE_S = 45
ANSWER = b"HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def server(serve):
    """A server that does this with each connection, once a request has come."""

    async def connected(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        serve(writer)
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]


async def counted(port, wanted):
    """What two clients count until they have this so often."""
    visitors = Visitors(port, 2)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(visitors.run())
        while visitors.counts[wanted] < 4:  # noqa: ASYNC110 - a count has no event
            await asyncio.sleep(0.01)
        visitors.end()
    return {name for name, count in visitors.counts.items() if count}


def reset(writer):
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("serve", "counts"),
    [
        (lambda writer: writer.write(ANSWER % 200), {"answered"}),
        (lambda writer: writer.write(ANSWER % 503), {"answered", "draining"}),
        (lambda writer: None, {"lost"}),
        (reset, {"reset"}),
    ],
    ids=["answered", "draining", "lost", "reset"],
)
async def test_what_becomes_of_requests_is_counted(serve, counts):
    async with server(serve) as port:
        assert await counted(port, max(counts)) == counts


async def test_refused_connections_are_counted():
    with closing(socket.socket()) as sock:  # bound, but it does not listen
        sock.bind(("127.0.0.1", 0))
        assert await counted(sock.getsockname()[1], "refused") == {"refused"}

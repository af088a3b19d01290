"""The demo's client: it reads one answer, keeps the connection, and never reads another request's answer."""

import asyncio
from contextlib import suppress

import pytest

from purgatory_async.cli.connection import Pool

pytestmark = pytest.mark.asyncio

TWO = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"
EMPTY = b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n"  # of what it would have been
LAST = b"HTTP/1.1 503 Busy\r\nConnection: close\r\ncontent-length: 0\r\n\r\n"


class ScriptedServer:
    """Answers each request with the next of its answers."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.paths = []
        self.asked = asyncio.Event()
        self.connections = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.pool = Pool(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_):
        self.pool.close()
        self._server.close()
        await asyncio.gather(*self.connections)

    async def _serve(self, reader, writer):
        self.connections.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.paths.append(head.split()[1].decode())
                self.asked.set()
                writer.write(self.answers.pop(0))
        writer.close()


async def test_a_connection_is_used_again_once_its_answer_is_read():
    # Who waits for the body of an answer that has none would wait for ever.
    async with ScriptedServer(TWO, EMPTY, TWO) as server, asyncio.timeout(60):
        replies = [await server.pool.request("GET", path) for path in ("/a", "/b", "/c")]
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"ab"), (304, b""), (200, b"ab")]
    assert server.paths == ["/a", "/b", "/c"]
    assert len(server.connections) == 1


async def test_a_connection_that_the_server_closes_is_not_used_again():
    async with ScriptedServer(LAST, TWO) as server:
        replies = [await server.pool.request("GET", path) for path in ("/a", "/b")]
    assert [reply.status for reply in replies] == [503, 200]
    assert len(server.connections) == 2


async def test_a_cancelled_request_takes_its_connection_with_it():
    async with ScriptedServer(b"", TWO) as server:
        request = asyncio.ensure_future(server.pool.request("GET", "/held"))
        await server.asked.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert (await server.pool.request("GET", "/next")).body == b"ab"
    assert len(server.connections) == 2

"""Connections over real sockets: what a kernel's buffers, resets and half-closed ends make of it all."""

import asyncio
import contextlib
import http.client
import json
import resource
import socket
import struct
import sys
from contextlib import closing
from pathlib import Path

import pytest
from uvicorn.server import ServerState

from purgatory_async import Timer
from purgatory_async.service.http.connection import connection_class
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.http.unsent import Unsent
from tests.service.wire import HELD, PATIENCE, SIGNAL, replies, request, until

pytestmark = pytest.mark.slow

SLOW = 2000
# Short, but longer than a busy machine takes to accept them all: a client that had no turn to be read is late, too.
SHORT = ("--header-timeout", "10s", "--body-timeout", "10s")
RESET = struct.pack("ii", 1, 0)


def signals(served):
    """The index of a key that only a request which must not run signals."""
    return served.request("GET", "/v1/keys/a").json["index"]


@pytest.mark.parametrize("framing", ["a length", "chunks"])
def test_a_too_large_body_sent_whole_still_gets_its_answer(serve, framing):
    served = serve()
    body = b"a" * (2 << 20)
    for _ in range(20):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        with closing(connection):
            connection.request(
                "POST",
                "/v1/keys/a/signal",
                body
                if framing == "a length"
                else (body[start : start + 65_536] for start in range(0, len(body), 65_536)),
                {"Content-Type": "application/json"},
                encode_chunked=framing == "chunks",
            )
            reply = connection.getresponse()
            assert (reply.status, json.loads(reply.read())["limit"]) == (413, 1 << 20)


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
@pytest.mark.parametrize("behind", [b"", SIGNAL, SIGNAL * 500], ids=["nothing", "a request", "500 requests"])
def test_leaving_a_held_request_is_noticed_behind_any_bytes(serve, behind, reset):
    served = serve()
    with closing(served.connect()) as connection:
        connection.sendall(HELD + behind)
        served.until("purgatory_operations_pending", 1)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    served.until("purgatory_operations_pending", 0)
    assert signals(served) == 0


def test_a_flooding_client_behind_a_held_request_is_noticed(serve):
    served = serve()
    with closing(served.connect()) as connection:
        connection.sendall(HELD)
        served.until("purgatory_operations_pending", 1)
        connection.sendall(SIGNAL * 20_000)  # more than the buffers between us take: the server reads on
    served.until("purgatory_operations_pending", 0)
    assert signals(served) == 0


class Slow:
    """A client that takes its time: it sends some of a request at once, then a byte now and then."""

    def __init__(self, begin, rest):
        self.begin, self.rest = begin, rest
        self.got = b""

    async def run(self, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        trickle = asyncio.get_running_loop().create_task(self._trickle(writer))
        with contextlib.suppress(ConnectionError):
            self.got = await reader.read()
        trickle.cancel()
        await asyncio.gather(trickle, return_exceptions=True)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _trickle(self, writer):
        writer.write(self.begin)
        for place in range(len(self.rest)):
            await asyncio.sleep(0.2)
            writer.write(self.rest[place : place + 1])


async def good_client(port, done):
    """Submit, signal and read until the others are done; returns the answers."""
    answered = []
    while not done.is_set():
        key = f"good{len(answered)}"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            request("/v1/operations", "POST", json.dumps({"keys": [key]}).encode())
            + request(f"/v1/keys/{key}/signal", "POST", b"{}")
            + request(connection="close")
        )
        answered.append([reply.status for reply in replies(await reader.read())])
        writer.close()
        await writer.wait_closed()
    return answered


def test_2_000_slow_clients_are_closed_and_good_ones_answered(serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    served = serve(*SHORT)
    half = request("/v1/operations", "POST", b'{"keys": ["slow"]}' + b" " * 500)
    kinds = {
        "head": (b"GET /", b"a" * 500),
        "body": (half[:-520], half[-520:]),
        "chunks": (
            request("/v1/keys/a/signal", "POST", content_type="application/json", transfer_encoding="chunked")
            + b"fff\r\n",
            b" " * 500,
        ),
        "silent": (b"", b""),
    }
    slow = {kind: [Slow(*pieces) for _ in range(SLOW // len(kinds))] for kind, pieces in kinds.items()}

    async def main():
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        good = [loop.create_task(good_client(served.port, done)) for _ in range(2)]
        async with asyncio.timeout(3 * PATIENCE):
            await asyncio.gather(
                *(client.run(served.port) for clients in slow.values() for client in clients)
            )
        done.set()
        return await asyncio.gather(*good)

    try:
        answered = asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(answered[0]) > 1
    assert [statuses for one in answered for statuses in one if statuses != [202, 200, 200]] == []
    assert {client.got for client in slow.pop("silent")} == {b""}
    for kind, clients in slow.items():
        assert {reply.slug for client in clients for reply in replies(client.got)} == {"too-slow"}, kind
        assert all(client.got for client in clients), kind
    assert signals(served) == 0
    assert served.sample("purgatory_operations_pending") == 0


class Faults:
    """A log that takes no fault; warnings of clients that are cut are no fault."""

    def error(self, event, exc_info, **_):
        raise exc_info

    def warning(self, event, **_):
        pass


@contextlib.asynccontextmanager
async def listening(app, **deadlines):
    """An application behind our connections, in this process."""
    state, timer = ServerState(), Timer()
    limits = Deadlines(**{"head": PATIENCE, "body": PATIENCE, **deadlines})
    kind = connection_class(ServerContext(app, timer, limits, Faults(), Unsent(1 << 30, timer)))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: kind(config=None, server_state=state, app_state={}), "127.0.0.1", 0, backlog=1024
    )
    try:
        yield server.sockets[0].getsockname()[1], state, timer
    finally:
        server.close()
        for connection in list(state.connections):
            connection.cut()
        await until(lambda: not (state.connections or state.tasks))
        timer.close()


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_is_cut_at_one_buffer():
    ended, buffered = asyncio.Event(), 0

    async def app(scope, receive, send):
        nonlocal buffered
        await send({"type": "http.response.start", "status": 200})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"a" * 10_000, "more_body": True})
                (connection,) = state.connections
                buffered = max(buffered, connection._transport.get_write_buffer_size())
                assert buffered < 100_000
        except ConnectionResetError:
            ended.set()
            raise

    async with listening(app, stall=0.2) as (port, state, _):
        with closing(socket.create_connection(("127.0.0.1", port))) as connection:
            connection.sendall(request())
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
        assert buffered > 0


@pytest.mark.asyncio
async def test_a_client_that_reads_in_the_end_gets_everything():
    size = 20_000_000

    async def app(scope, receive, send):
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]}
        )
        for left in range(size, 0, -100_000):
            await send({"type": "http.response.body", "body": b"a" * 100_000, "more_body": left > 100_000})

    async with listening(app) as (port, state, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(connection="close"))
        await until(lambda: any(connection._writable for connection in state.connections))
        answer = await reader.read()
        assert len(replies(answer)[0].body) == size
        writer.close()
        await writer.wait_closed()


@pytest.mark.asyncio
async def test_all_connection_deadlines_share_one_wakeup():
    async def app(scope, receive, send):
        raise AssertionError("nothing was asked")

    async with listening(app) as (port, state, timer), contextlib.AsyncExitStack() as stack:
        for _ in range(200):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
        await until(lambda: len(state.connections) == 200)
        assert timer.pending == 200
        scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
        assert len(scheduled) < 5


def test_nothing_of_a_connection_is_left_when_it_is_gone(serve):
    served = serve()
    before = None
    for number in range(3000):
        with closing(served.connect()) as connection:
            connection.sendall([HELD, b"GET", SIGNAL, b"\0", HELD + SIGNAL, b""][number % 6])
        if number == 1000:
            served.until("purgatory_operations_pending", 0)
            before = resident(served)
    served.until("purgatory_operations_pending", 0)
    grown = resident(served) - before
    assert grown < 4096, f"{grown} KiB more after 2000 connections"


def resident(served):
    """KiB of memory that a server uses."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

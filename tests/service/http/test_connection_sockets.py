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

from purgatory_async import Timer
from purgatory_async.service.http.answer import Answer
from purgatory_async.service.http.context import Deadlines, ServerContext
from purgatory_async.service.http.front import Front
from purgatory_async.service.http.unsent import Unsent
from tests.service.wire import HELD, PATIENCE, SIGNAL, Scripted, replies, request, until

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
async def listening(act, **deadlines):
    """An application behind our connections, in this process."""
    timer, app = Timer(), Scripted(act)
    limits = Deadlines(**{"head": PATIENCE, "body": PATIENCE, **deadlines})
    context = ServerContext(app, timer, limits, Faults(), Unsent(1 << 30, timer))
    front = Front(context, app.tasks)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as sock:
        await front.listen([sock], 1024)
        try:
            yield sock.getsockname()[1], app, context
        finally:
            await front.stop_accepting(())
            await front.ended(0, lambda: True)
            await until(lambda: not (context.connections or app.tasks))
            timer.close()


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_is_cut_at_one_buffer():
    ended, buffered = asyncio.Event(), 0

    async def stream(made):
        nonlocal buffered
        await made.wire.open(b"")
        try:
            while True:
                await made.wire.send(b"a" * 10_000)
                (connection,) = context.connections
                buffered = max(buffered, connection._transport.get_write_buffer_size())
                assert buffered < 100_000
        except ConnectionResetError:
            ended.set()

    async with listening(lambda made: app.run(stream(made)), stall=0.2) as (port, app, context):
        with closing(socket.create_connection(("127.0.0.1", port))) as connection:
            connection.sendall(request())
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
        assert buffered > 0


@pytest.mark.asyncio
async def test_a_client_that_reads_in_the_end_gets_everything():
    size = 20_000_000

    async def stream(made):
        await made.wire.open(b"")
        for _ in range(0, size, 100_000):
            await made.wire.send(b"a" * 100_000)
        made.ended = True
        await made.wire.end()

    async with listening(lambda made: app.run(stream(made))) as (port, app, context):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request())
        await until(lambda: any(connection._writable for connection in context.connections))
        answer = await reader.read()
        assert len(replies(answer)[0].body) == size
        writer.close()
        await writer.wait_closed()


@pytest.mark.asyncio
async def test_all_connection_deadlines_share_one_wakeup():
    async with listening(None) as (port, _, context), contextlib.AsyncExitStack() as stack:
        for _ in range(200):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
        await until(lambda: len(context.connections) == 200)
        assert context.timer.pending == 200
        scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
        assert len(scheduled) < 5


@pytest.mark.asyncio
async def test_a_front_that_stops_lets_answers_leave_then_cuts():
    async with listening(None) as (port, app, context):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        silent, other = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request())
        other.write(request("/never"))
        await until(lambda: len(app.requests) == 2)
        answered = next(made for made in app.requests if made.path == b"/healthz")
        for connection in list(context.connections):
            connection.shutdown()
        answered.ended = True
        answered.wire.answer(Answer(200, b"ok"), b"", 0.0)
        assert (await reader.read()).endswith(b"ok")
        await until(lambda: len(context.connections) == 1)
    assert await silent.read() == b""
    writer.close()
    other.close()


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

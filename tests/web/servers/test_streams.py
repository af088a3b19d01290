"""Streams of events on real servers: they stop, sit behind nginx, and serve clients that come and go."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import urllib.request
import zlib
from contextlib import ExitStack

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, SqliteLog
from purgatory_async.web import aiohttp_events
from tests.ports import free_port
from tests.processes import PATIENCE_S, accepts, python, until
from tests.service.proxied import AROUND, nginx_or_skip
from tests.web.event_lines import parse
from tests.web.servers.news import KEPT
from tests.web.servers.wire import PATIENCE, Connection

HELD = 1000
EVENTS = int(os.environ.get("EVENTS", "60000"))
READERS = 8
BATCH = 500
WORKERS = 4

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["asyncio"])]


@pytest.fixture
def start():
    """Start processes; end them all after the test."""
    with ExitStack() as ends:

        def start(*arguments, **options):
            process = ends.enter_context(python(*arguments, **options))
            ends.callback(process.wait, PATIENCE_S)
            ends.callback(process.terminate)  # killed, uvicorn would leave its workers behind
            return process

        yield start


def body_of(answer):
    """The body of an answer in chunks; the last one is missing if the machine is too slow for the half second."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"\r\ntransfer-encoding: chunked" in head.lower()
    pieces = []
    while rest not in {b"0\r\n\r\n", b""}:
        size, _, rest = rest.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return b"".join(pieces)


@pytest.mark.parametrize("stack", ["starlette", "fastapi", "asgi", "aiohttp"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_a_thousand_streams_end_when_the_server_stops(start, stack, loop):
    server = start("-m", "tests.web.servers.stopped", stack, loop, str(HELD))
    port = int(server.stdout.readline())
    with ExitStack() as ends:
        connections = [ends.enter_context(Connection(port)) for _ in range(HELD)]
        for connection in connections:
            await connection.ask("/events")
        assert server.stdout.readline() == "held\n"
        clock = asyncio.get_running_loop().time
        begun = clock()
        server.send_signal(signal.SIGTERM)
        answers = [await connection.rest() for connection in connections]
        print(f"{clock() - begun:.3f} s")  # noqa: T201 - for who asks, with -rP
    streams = [parse(body_of(answer)) for answer in answers]
    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)
    assert all(len(stream.retries) == 1 and not stream.events for stream in streams)
    assert len({stream.retries[0] for stream in streams}) > HELD // 4
    _, errors = server.communicate(timeout=PATIENCE)
    assert server.returncode == (0 if stack == "aiohttp" else -signal.SIGTERM)
    assert "Traceback" not in errors


async def test_aiohttp_drops_who_takes_nothing():
    over = asyncio.Event()

    async def endless():
        try:
            while True:
                yield "x" * (1 << 20)
        finally:
            over.set()

    async def follow(request):
        return await aiohttp_events(request, endless(), send_timeout=0.2)

    app = web.Application()
    app.router.add_get("/events", follow)
    async with asyncio.timeout(PATIENCE), TestServer(app) as server:
        with Connection(server.port) as connection:
            await connection.ask("/events")
            await over.wait()
            assert not (await connection.rest()).endswith(b"0\r\n\r\n")


# Workers.


def serve(start, *flags, **environment):
    port = free_port()
    uvicorn = ("-m", "uvicorn", "tests.web.servers.news:app", "--port", str(port), "--no-access-log", *flags)
    process = start(*uvicorn, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    until(lambda: accepts(port), "uvicorn")
    return process, port


def fetched(port, path, body=None):
    """The JSON that a worker answers, on a connection of its own."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, PATIENCE_S) as answer:
        return json.load(answer)


class Reader:
    """A client that loses its connection at random, comes back with its last id, and notes what it gets."""

    def __init__(self, port, number):
        self.port = port
        self.random = random.Random(number)
        self.begun = asyncio.Event()
        self.last_id = ""
        self.seen = []
        self.returns = 0

    async def read(self, end):
        """Read until an event's data is ``end``."""
        while not self.seen or self.seen[-1] != end:
            await self.read_some(end, self.random.randrange(1, 1 << 16))
            self.returns += 1

    async def read_some(self, end, size):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        last = f"Last-Event-ID: {self.last_id}\r\n" if self.last_id else ""
        writer.write(f"GET /events HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.begun.set()
            lines = b""
            while size > 0 and (not self.seen or self.seen[-1] != end):
                length = int(await reader.readline(), 16)
                lines += (await reader.readexactly(length + 2))[:-2]
                size -= length
                whole, _, lines = lines.rpartition(b"\n\n")
                self.take(whole + b"\n\n")
        finally:
            writer.transport.abort()

    def take(self, stream):
        for found in re.finditer(rb"^id: (.+)$", stream, re.MULTILINE):
            self.last_id = found[1].decode()
        for event in parse(stream.removeprefix(b"\n\n")).events:
            assert event.name == "message", f"a {event.name} after {self.seen[-1:]}: {event}"
            self.seen.append(json.loads(event.data))


async def publish(path, readers):
    """Signal numbered items in batches, as a process of its own would, as far ahead of the readers as is kept."""
    async with Purgatory() as purgatory, Cluster(purgatory, SqliteLog(path)) as cluster:
        for begin in range(0, EVENTS, BATCH):
            numbers = range(begin, min(begin + BATCH, EVENTS))
            await asyncio.gather(*(cluster.signal(f"news:{n % 7}", n, timeout=60) for n in numbers))
            while min(len(reader.seen) for reader in readers) < begin - KEPT // 2:  # noqa: ASYNC110 - a thousand steps
                await asyncio.sleep(0.05)


async def test_readers_that_come_and_go_among_workers_miss_nothing(start, tmp_path):
    path = str(tmp_path / "news.db")
    _, port = serve(start, "--workers", str(WORKERS), NEWS=path)
    workers = set()
    while len(workers) < WORKERS:
        workers.add((await asyncio.to_thread(fetched, port, "/state"))["worker"])
    readers = [Reader(port, number) for number in range(READERS)]
    async with asyncio.timeout(EVENTS / 100), asyncio.TaskGroup() as group:
        for reader in readers:
            group.create_task(reader.read(EVENTS - 1))
        for reader in readers:
            await reader.begun.wait()
        group.create_task(publish(path, readers))
    for reader in readers:
        assert reader.seen == list(range(EVENTS))
    print(sum(reader.returns for reader in readers), "returns")  # noqa: T201 - for who asks, with -rP


# nginx.


@pytest.fixture
def proxied(tmp_path):
    """Put an nginx with buffers before a port; returns its own port."""
    with ExitStack() as ends:

        def proxied(upstream):
            port = free_port()
            # nginx with buffers passes on what it has, unless something behind them, as gzip, waits for more.
            gathering = "proxy_buffering on; gzip on; gzip_proxied any; gzip_types text/event-stream;"
            snippet = f"location / {{ proxy_pass http://127.0.0.1:{upstream}; {gathering} }}"
            config = tmp_path / "nginx.conf"
            config.write_text(AROUND.format(folder=tmp_path, port=port, snippet=snippet))
            command = [nginx_or_skip(), "-p", tmp_path, "-c", config, "-e", tmp_path / "error.log"]
            nginx = ends.enter_context(subprocess.Popen(command))
            ends.callback(nginx.terminate)
            until(lambda: accepts(port), "nginx")
            return port

        yield proxied


async def test_nginx_with_buffers_passes_each_event_on(start, proxied):
    _, upstream = serve(start)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxied(upstream))
    writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
    unzip, body = zlib.decompressobj(wbits=31), b""
    async with asyncio.timeout(PATIENCE):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-encoding: gzip" in head.lower()
        for number in range(3):
            await asyncio.to_thread(fetched, upstream, "/news", str(number).encode())
            while f"data: {number}\n\n".encode() not in body:
                size = int(await reader.readline(), 16)
                body += unzip.decompress((await reader.readexactly(size + 2))[:-2])
    writer.close()

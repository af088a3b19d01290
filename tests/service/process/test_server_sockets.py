"""Sockets of whole processes: a Unix socket, sockets that are passed, and a port that is handed over."""

import asyncio
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from purgatory_async.client import AsyncClient, Client
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process.listeners import listen
from purgatory_async.service.process.server import Server
from purgatory_async.service.settings.settings import Settings
from tests.processes import PATIENCE_S, ended, python, read_answer, until

pytestmark = pytest.mark.slow

SERVE = ("-m", "purgatory_async", "serve")
PASSING = "bench.service.passing"
REQUEST = b"GET /v1/keys/a HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def folder():
    """A folder whose name is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def started(command, **options):
    """A process that serves, and the addresses that it printed."""
    with python(*command, **options) as process:
        try:
            yield process, process.stdout.readline().partition(" at ")[2].strip().split(", ")
        finally:
            process.kill()


@contextmanager
def silent(command):
    """A process that serves, and whose output is not read."""
    with python(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def stop(process):
    process.terminate()
    return process.wait(PATIENCE_S)


def answered(address, host="localhost", path="/v1/keys/a"):
    """The status of a request over a new connection."""
    kind = socket.AF_UNIX if address.startswith("unix://") else socket.AF_INET
    name, _, port = address.partition("://")[2].rpartition(":")
    with closing(http.client.HTTPConnection("localhost")) as connection:
        connection.sock = socket.socket(kind)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(
            address.removeprefix("unix://") if kind == socket.AF_UNIX else (name, int(port))
        )
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status


@pytest.mark.parametrize("workers", [1, 2])
def test_a_unix_socket_serves_checks_hosts_and_is_removed(folder, workers):
    path = folder / "s"
    store = ["--store", f"sqlite:///{folder}/a.db", "--workers", str(workers)] if workers > 1 else []
    with started([*SERVE, "--uds", str(path), "--port", "0", *store]) as (process, addresses):
        assert addresses[1] == f"unix://{path}"
        assert [answered(address) for address in addresses] == [200, 200]
        assert answered(addresses[1], "evil.example") == 421
        with Client(addresses[1]) as client:
            assert client.signal("a") == 0
            assert client.read("a").index > 0
        assert stop(process) == 0
    assert not path.exists()


def test_a_unix_socket_of_workers_serves_through_the_drain_delay(folder):
    flags = ["--uds", str(folder / "s"), "--drain-delay", "10m"]
    flags += ["--workers", "2", "--store", f"sqlite:///{folder}/a.db"]
    with started([*SERVE, *flags]) as (process, (address,)):
        process.terminate()
        until(lambda: answered(address, path="/readyz") == 503)
        assert [answered(address) for _ in range(10)] == [200] * 10
        assert stop(process) == 0


@pytest.mark.asyncio
async def test_the_async_client_speaks_over_a_unix_socket(folder):
    with started([*SERVE, "--uds", str(folder / "s")]) as (_, (address,)):
        async with AsyncClient(address) as client:
            assert (await client.read("a")).index == 0


def test_commands_speak_over_a_unix_socket(folder):
    with started([*SERVE, "--uds", str(folder / "s")]) as (_, (address,)):
        assert ended("signal", "a", "--url", address)[0] == 0
    code, _, errors = ended("signal", "a", "--url", address)
    assert code == 2
    assert f"is a service running at {address}?" in errors


def made_at(path):
    """When a file was made, in nanoseconds, for its inode may be the same as before; None without one."""
    try:
        return path.lstat().st_mtime_ns
    except FileNotFoundError:
        return None


def test_a_signal_during_the_start_leaves_a_path_to_use(folder):
    path = folder / "s"
    for delay in (0, 0.05, 0.3):
        before = made_at(path)
        with silent([*SERVE, "--uds", str(path)]) as process:
            until(lambda: made_at(path) not in {before, None})  # noqa: B023 - called before the next
            time.sleep(delay)
            assert stop(process) in {0, -signal.SIGTERM}
    with started([*SERVE, "--uds", str(path)]) as (_, (address,)):
        assert answered(address) == 200


@pytest.mark.parametrize("workers", [1, 2])
def test_two_passed_sockets_are_served_and_outlive_the_process(folder, workers):
    store = ["--store", f"sqlite:///{folder}/a.db", "--workers", str(workers)] if workers > 1 else []
    with ExitStack() as stack:
        tcp = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        unix = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        unix.bind(str(folder / "s"))
        unix.listen()
        given = [tcp.fileno(), unix.fileno()]
        command = ["-m", PASSING, ",".join(map(str, given)), *store]
        for _ in range(2):
            # Before the process runs: it waits in the queue of the socket.
            early = stack.enter_context(closing(socket.create_connection(tcp.getsockname(), PATIENCE_S)))
            early.sendall(REQUEST)
            with started(command, pass_fds=given) as (process, addresses):
                assert addresses == [f"http://127.0.0.1:{tcp.getsockname()[1]}", f"unix://{folder}/s"]
                assert [answered(address) for address in addresses] == [200, 200]
                assert early.recv(99).startswith(b"HTTP/1.1 200 ")
                assert stop(process) == 0
            assert (folder / "s").exists()


def test_passed_sockets_with_a_port_are_refused_in_one_sentence():
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        number = sock.fileno()
        refused = ended("-m", PASSING, number, "--port", 0, start=python, pass_fds=[number])
    complaint = "purgatory: port in the command line must be absent beside the sockets of LISTEN_FDS, got 0\n"
    assert refused == (2, "", complaint)


def test_a_second_process_takes_over_a_port():
    with started([*SERVE, "--port", "0", "--reuse-port"]) as (first, (address,)):
        port = address.rpartition(":")[2]
        with started([*SERVE, "--port", port, "--reuse-port"]) as (second, (same,)):
            assert same == address
            held = socket.create_connection(("127.0.0.1", int(port)), PATIENCE_S)
            with closing(held):
                held.sendall(b"GET /v1/wait?key=a&wait=50s HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert stop(first) == 0
                assert [answered(address) for _ in range(10)] == [200] * 10
                assert stop(second) == 0
                assert read_answer(held)[0].startswith("HTTP/1.1 503 ")


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["port", "uds"])
async def test_what_waits_in_the_queue_at_the_end_is_answered(folder, monkeypatch, kind):
    """The clients connect in the step that closes the sockets, so the loop cannot have accepted them."""
    given = {"port": 0, "reuse_port": True} if kind == "port" else {"uds": folder / "s"}
    settings, stream = Settings(**given), io.StringIO()
    with ExitStack() as stack, listen(settings) as listeners:
        server, ready = Server(settings, listeners, stderr_log(stream)), asyncio.Event()
        running = asyncio.create_task(server.run(lambda _: ready.set()))
        await ready.wait()
        clients, withdraw = [], listeners.withdraw

        def connect_first():
            for _ in range(100):
                client = stack.enter_context(closing(socket.socket(listeners.sockets[0].family)))
                client.connect(listeners.sockets[0].getsockname())
                client.sendall(REQUEST)
                clients.append(client)
            withdraw()

        monkeypatch.setattr(listeners, "withdraw", connect_first)
        await server.stop()
        monkeypatch.undo()
        async with asyncio.timeout(PATIENCE_S):
            await running
        for client in clients:
            client.settimeout(PATIENCE_S)
            head, body = read_answer(client)
            assert (head.split("\r\n")[0], json.loads(body)["key"]) == ("HTTP/1.1 200 OK", "a")


@pytest.mark.asyncio
async def test_connections_that_cannot_be_accepted_are_logged(monkeypatch):
    settings, stream = Settings(port=0), io.StringIO()

    def none_left(_):
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr("purgatory_async.service.process.server.accept_waiting", none_left)
    with listen(settings) as listeners:
        server, ready = Server(settings, listeners, stderr_log(stream)), asyncio.Event()
        running = asyncio.create_task(server.run(lambda _: ready.set()))
        await ready.wait()
        await server.stop()
        await running
    errors = [
        record for record in map(json.loads, stream.getvalue().splitlines()) if record["level"] == "error"
    ]
    assert [record["reason"] for record in errors] == ["Too many open files"]

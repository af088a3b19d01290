"""The package's commands as processes of their own, and requests to those that serve.

`Served` is the one driver of ``purgatory serve``: it starts, waits, asks, stops and kills it.
"""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

from tests.source_tree import ROOT

PATIENCE_S = 45.0  # less than the 50 s of a held request
WHOLE_S = 120.0  # for a command to start and to end on a busy machine
LOOK_S = 0.02


class Program(subprocess.Popen):
    """A process that an error beside it ends; else leaving its ``with`` would wait for it, perhaps for ever."""

    def __exit__(self, kind, *rest):
        """Wait for it."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)


def python(*arguments, **options):
    """Start Python at the root of the tree, with pipes for its output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return Program([sys.executable, *map(str, arguments)], **{"cwd": ROOT, **pipes, **options})


def purgatory(*arguments, **options):
    """Start a command of the package."""
    return python("-m", "purgatory_async", *arguments, **options)


def ended(*arguments, start=purgatory, **options):
    """What a command returns and prints that ends by itself: exit code, output, errors."""
    with start(*arguments, **options) as process:
        output, errors = process.communicate(timeout=WHOLE_S)
    return process.returncode, output, errors


def until(holds, what="it", patience=PATIENCE_S):
    """Wait until something holds, for so many seconds at most; returns what it brought."""
    give_up = time.monotonic() + patience
    while not (found := holds()):
        assert time.monotonic() < give_up, f"{what} never came"
        time.sleep(LOOK_S)
    return found


def accepts(port):
    """Whether something listens on a port of 127.0.0.1."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def records(logged):
    """The records of a log."""
    return [json.loads(line) for line in logged.splitlines()]


def read_answer(connection):
    """Everything until the server closes the connection, as head and body."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    return head.decode(), body


class Reply:
    """A complete answer."""

    def __init__(self, reply):
        self.status = reply.status
        self.headers = {name.lower(): value for name, value in reply.getheaders()}
        self.body = reply.read()

    @property
    def json(self):
        return json.loads(self.body) if self.body else None

    @property
    def slug(self):
        return self.json["type"].removeprefix("urn:purgatory:problem:")


class Pending:
    """A request under way in a thread, and its answer or error once there is one."""

    def __init__(self, served, *request):
        self.reply = self.error = None
        self._thread = threading.Thread(target=self._run, args=(served, request), daemon=True)
        self._thread.start()

    def _run(self, served, request):
        try:
            self.reply = served.request(*request)
        except (OSError, http.client.HTTPException) as error:
            self.error = error

    @property
    def over(self):
        return not self._thread.is_alive()

    def join(self):
        self._thread.join(PATIENCE_S)
        assert self.over, "the request is still held"
        if self.error is not None:
            raise self.error
        return self.reply


class Served:
    """A ``purgatory serve`` process; after its end it can `start` again.

    Args:
        flags: The flags of the command.
        port: Where it listens; by default at another free port after each start.
        options: The options of the process. Where its output is no pipe, `start` waits until ``port`` accepts.

    Attributes:
        headers: Sent with every request.
    """

    def __init__(self, *flags, port=0, **options):
        self._flags = ("--port", port, *flags)
        self._options = options
        self.port = port
        self.process = None
        self.headers = {}

    def start(self):
        """Start it; it accepts connections then, but need not be ready."""
        self.process = purgatory("serve", *self._flags, **self._options)
        if self.process.stdout is None:
            until(lambda: self.process.poll() is not None or accepts(self.port), "the server")
            assert self.process.poll() is None, f"it ended with {self.process.returncode}"
        else:
            line = self.process.stdout.readline()
            assert line, f"it ended with {self.end()}"
            self.port = int(line.rpartition(":")[2])
        return self

    __enter__ = start

    def ready(self):
        """Wait until it is ready."""
        until(lambda: self.request("GET", "/readyz").status == 200, "readiness")
        return self

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self):
        """A connection of its own, on which nothing is sent yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def request(self, method, target, body=None, headers=None):
        """Send a request and wait for its answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
            text = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, target, text, {**kind, **self.headers, **(headers or {})})
            return Reply(connection.getresponse())

    def open(self, path):
        """Send a GET on a connection of its own and do not wait for the answer."""
        connection = self.connect()
        fields = {"Host": "localhost", **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        return connection

    def hold(self, method, target, body=None):
        """Send a request that is held; return it when it is."""
        taking = target.endswith("take") or "/take?" in target
        before = self.counts()["takers" if taking else "held"]
        pending = Pending(self, method, target, body)
        until(lambda: self.counts()["takers" if taking else "held"] > before, "a held request")
        return pending

    def counts(self):
        return self.request("GET", "/v1/admin/stats").json["counts"]

    def until_count(self, name, expected):
        """Wait until a count is as expected."""
        until(lambda: self.counts()[name] == expected, f"{name} {expected}")

    def samples(self, headers=None):
        """The metrics, by name and labels."""
        text = self.request("GET", "/metrics", headers=headers).body.decode()
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def sample(self, name):
        """The value of the first metric whose name and labels begin so; None before it has one."""
        return next((value for found, value in self.samples().items() if found.startswith(name)), None)

    def until(self, name, expected):
        """Wait until a metric has the expected value."""
        until(lambda: self.sample(name) == expected, f"{name} {expected}")

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for its end; return its exit code and what it logged."""
        _, logged = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, logged

    def stop(self, number=signal.SIGTERM):
        self.send(number)
        return self.end()

    def kill(self):
        return self.stop(signal.SIGKILL)

    def close(self):
        """Kill it, if it still runs, and close its output."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                pipe.close()

    def __exit__(self, *raised):
        self.close()

"""A server whose standard error or output cannot be written: it serves, reloads and stops as ever."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from purgatory_async.journal import read_journal
from purgatory_async.journal.schema import Outcome, Submit
from tests.ports import free_port
from tests.service.process.test_server import PATIENCE, ROOT, Served, read_answer

pytestmark = pytest.mark.slow

TOKEN = "secret-of-the-operator-0123456789"
POLLS = ["/v1/wait?key=a&wait=50s", "/v1/keys/a?index=0&wait=50s", "/v1/operations/op?wait=50s"]


class Deaf(Served):
    """A server on a port chosen beforehand, for its output cannot be read."""

    def __init__(self, *flags, stdout, stderr):
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "purgatory_async", "serve", "--port", str(self.port), *flags],
            cwd=ROOT,
            stdout=stdout,
            stderr=stderr,
        )
        give_up = time.monotonic() + PATIENCE
        while not self.is_open():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}"
            assert time.monotonic() < give_up
            time.sleep(0.02)

    def is_open(self):
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def request(self, method, path, body=None, headers=()):
        return super().request(method, path, body, {"Authorization": f"Bearer {TOKEN}", **dict(headers)})

    def open(self, path):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        connection.sendall(head.encode())
        return connection


def closed_pipe(stack):
    reading, writing = os.pipe()
    os.close(reading)
    stack.callback(os.close, writing)
    return writing


def full_disk(stack):
    return stack.enter_context(Path("/dev/full").open("w"))


def unread_pipe(stack):
    """A pipe that is full, whose reader lives and does not read."""
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    stack.callback(os.close, writing)
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    return writing


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("fault", [closed_pipe, full_disk, unread_pipe])
def test_a_log_that_cannot_be_written_decides_nothing(stack, tmp_path, fault):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN} admin\n")
    tokens.chmod(0o600)
    directory = tmp_path / "journal"
    flags = ["--tokens", str(tokens), "--journal", str(directory)]
    served = Deaf(*flags, stdout=subprocess.DEVNULL, stderr=fault(stack))
    stack.callback(served.process.wait)
    stack.callback(served.process.kill)
    served.request("POST", "/v1/operations", {"keys": ["b"], "id": "op"})
    held = [stack.enter_context(closing(served.open(path))) for path in POLLS]
    served.until("purgatory_held", len(POLLS))
    served.process.send_signal(signal.SIGHUP)
    tokens.write_text("no tokens file\n\x00")
    served.process.send_signal(signal.SIGHUP)
    served.request("GET", "/readyz")
    served.process.send_signal(signal.SIGTERM)
    answers = [read_answer(connection) for connection in held]
    assert served.process.wait(PATIENCE) == 0
    assert [json.loads(body)["type"] for _, body in answers] == ["urn:purgatory:problem:draining"] * 3
    records = list(read_journal(directory))
    assert sum(isinstance(record, Submit) for record in records) == 2
    ends = [record.outcome for record in records if isinstance(record, Outcome)]
    assert sorted(ends) == ["cancelled", "closed"]


@pytest.mark.parametrize("fault", [closed_pipe, full_disk])
def test_an_address_that_cannot_be_printed_decides_nothing(stack, fault):
    served = Deaf(stdout=fault(stack), stderr=subprocess.DEVNULL)
    stack.callback(served.process.wait)
    stack.callback(served.process.kill)
    assert served.request("GET", "/healthz")[0].status == 200
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("fault", [closed_pipe, full_disk])
def test_a_refusal_that_cannot_be_printed_is_exit_2(stack, fault):
    refused = subprocess.run(
        [sys.executable, "-m", "purgatory_async", "serve", "--max-wait", "soon"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=fault(stack),
        check=False,
        timeout=PATIENCE,
    )
    assert refused.returncode == 2


WARNING = """
import os, signal, warnings
from purgatory_async.service.process.server import serve
from purgatory_async.service.settings.settings import Settings

def announce(address):
    warnings.warn("odd", stacklevel=1)
    os.kill(os.getpid(), signal.SIGTERM)

serve(Settings(port=0), announce)
"""


def test_a_warning_is_a_record_of_the_log():
    ended = subprocess.run(
        [sys.executable, "-c", WARNING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0
    records = [json.loads(line) for line in ended.stderr.splitlines()]
    [warning] = [record for record in records if record.get("logger") == "py.warnings"]
    assert "UserWarning: odd" in warning["message"]

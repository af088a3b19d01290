"""A server whose standard error or output cannot be written: it serves, reloads and stops as ever."""

import json
import os
import signal
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from purgatory_async.journal import read_journal
from purgatory_async.journal.schema import Outcome, Submit
from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, ended, purgatory, python, read_answer, records

pytestmark = pytest.mark.slow

TOKEN = "secret-of-the-operator-0123456789"
POLLS = ["/v1/wait?key=a&wait=50s", "/v1/keys/a?index=0&wait=50s", "/v1/operations/op?wait=50s"]


@pytest.fixture
def deaf(stack):
    """Start servers whose output is not read, on ports chosen beforehand."""

    def start(*flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        served = Served(*flags, port=free_port(), stdout=stdout, stderr=stderr)
        served.headers = {"Authorization": f"Bearer {TOKEN}"}
        return stack.enter_context(served)

    return start


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
def test_a_log_that_cannot_be_written_decides_nothing(stack, deaf, tmp_path, fault):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN} admin\n")
    tokens.chmod(0o600)
    directory = tmp_path / "journal"
    flags = ["--tokens", str(tokens), "--journal", str(directory)]
    served = deaf(*flags, stderr=fault(stack))
    served.request("POST", "/v1/operations", {"keys": ["b"], "id": "op"})
    held = [stack.enter_context(closing(served.open(path))) for path in POLLS]
    served.until("purgatory_held", len(POLLS))
    served.send(signal.SIGHUP)
    tokens.write_text("no tokens file\n\x00")
    served.send(signal.SIGHUP)
    served.request("GET", "/readyz")
    served.send(signal.SIGTERM)
    answers = [read_answer(connection) for connection in held]
    assert served.end()[0] == 0
    assert [json.loads(body)["type"] for _, body in answers] == ["urn:purgatory:problem:draining"] * 3
    kept = list(read_journal(directory))
    assert sum(isinstance(record, Submit) for record in kept) == 2
    ends = [record.outcome for record in kept if isinstance(record, Outcome)]
    assert sorted(ends) == ["cancelled", "closed"]


@pytest.mark.parametrize("fault", [closed_pipe, full_disk])
def test_an_address_that_cannot_be_printed_decides_nothing(stack, deaf, fault):
    served = deaf(stdout=fault(stack))
    assert served.request("GET", "/healthz").status == 200
    assert served.stop()[0] == 0


@pytest.mark.parametrize("fault", [closed_pipe, full_disk])
def test_a_refusal_that_cannot_be_printed_is_exit_2(stack, fault):
    outputs = {"stdout": subprocess.DEVNULL, "stderr": fault(stack)}
    with purgatory("serve", "--max-wait", "soon", **outputs) as refused:
        assert refused.wait(PATIENCE_S) == 2


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
    code, _, logged = ended("-c", WARNING, start=python)
    assert code == 0
    [warning] = [record for record in records(logged) if record.get("logger") == "py.warnings"]
    assert "UserWarning: odd" in warning["message"]

"""What the service manager is told: by `Manager`, and by whole processes that a real socket hears."""

import io
import json
import os
import signal
import socket
import sys
import time
from contextlib import closing

import pytest

from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process.manager import Manager
from purgatory_async.service.settings.settings import SettingsError
from tests.processes import PATIENCE_S, purgatory


@pytest.fixture
def heard(tmp_path):
    """A socket as a service manager has it."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(PATIENCE_S)
        yield sock


def told(**environment):
    stream = io.StringIO()
    return Manager(environment, stderr_log(stream)), stream


def test_without_a_manager_nothing_is_said_or_logged():
    manager, stream = told(WATCHDOG_USEC="1000000")
    manager.ready("http://127.0.0.1:1")
    assert (manager.every, stream.getvalue()) == (None, "")


def test_a_manager_hears_one_datagram_a_message(heard):
    manager, _ = told(NOTIFY_SOCKET=heard.getsockname())
    before_us = time.monotonic_ns() // 1000
    manager.ready("http://127.0.0.1:1")
    manager.reloading()
    manager.reloaded()
    manager.stopping()
    manager.alive()
    assert heard.recv(999) == b"READY=1\nSTATUS=serving at http://127.0.0.1:1"
    reloading, at = heard.recv(999).split(b"\nMONOTONIC_USEC=")
    assert (reloading, before_us <= int(at) <= time.monotonic_ns() // 1000) == (b"RELOADING=1", True)
    assert [heard.recv(999) for _ in range(3)] == [b"READY=1", b"STOPPING=1\nSTATUS=draining", b"WATCHDOG=1"]


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_a_manager_may_have_an_abstract_socket():
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sock:
        name = f"purgatory-{os.getpid()}"
        sock.bind(f"\0{name}")
        told(NOTIFY_SOCKET=f"@{name}")[0].alive()
        assert sock.recv(99) == b"WATCHDOG=1"


def test_a_manager_that_is_gone_is_logged_once(tmp_path):
    manager, stream = told(NOTIFY_SOCKET=str(tmp_path / "gone"))
    manager.alive()
    manager.stopping()
    (record,) = map(json.loads, stream.getvalue().splitlines())
    assert (record["level"], record["message"]) == ("warning", "the service manager cannot be told")


def test_a_manager_whose_queue_is_full_stalls_nobody(heard):
    manager, stream = told(NOTIFY_SOCKET=heard.getsockname())
    for _ in range(10_000):
        manager.alive()
    assert "cannot be told" in stream.getvalue()


def test_the_watchdog_is_fed_twice_in_its_time():
    manager, _ = told(NOTIFY_SOCKET="/run/x", WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid()))
    assert manager.every == 15
    other, _ = told(NOTIFY_SOCKET="/run/x", WATCHDOG_USEC="30000000", WATCHDOG_PID="1")
    assert other.every is None


@pytest.mark.parametrize(
    "environment",
    [
        {"NOTIFY_SOCKET": "run/x"},
        {"NOTIFY_SOCKET": "@"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1s"},
    ],
)
def test_variables_that_no_manager_sets_are_refused(environment):
    with pytest.raises(SettingsError, match=r"must be .*, got "):
        told(**environment)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_tells_its_manager_what_it_does(heard, tmp_path, workers):
    tokens = tmp_path / "tokens"
    tokens.write_text("correct-horse-battery-staple admin\n")
    tokens.chmod(0o600)
    store = ["--store", f"sqlite:///{tmp_path}/a.db", "--workers", str(workers)] if workers > 1 else []
    told_to = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "200000"}
    serve = ("serve", "--port", 0, "--tokens", tokens, *store)
    with purgatory(*serve, stderr=None, env=os.environ | told_to) as process:
        seen = _until(heard, b"READY=1\nSTATUS=serving at http://127.0.0.1:")
        port = int(seen[-1].rpartition(b":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        process.send_signal(signal.SIGHUP)
        _until(heard, b"RELOADING=1\nMONOTONIC_USEC=")
        _until(heard, b"READY=1")
        assert _until(heard, b"WATCHDOG=1") == [b"WATCHDOG=1"]
        process.terminate()
        _until(heard, b"STOPPING=1")
        assert process.wait(PATIENCE_S) == 0


def _until(heard, beginning):
    """The messages up to the first with a beginning; in between are only the watchdog's."""
    messages, give_up = [heard.recv(999)], time.monotonic() + PATIENCE_S
    while not messages[-1].startswith(beginning):
        assert messages[-1] == b"WATCHDOG=1", messages
        assert time.monotonic() < give_up, messages[-3:]
        messages.append(heard.recv(999))
    return messages

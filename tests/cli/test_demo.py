"""The demo: it answers under its load, shows figures, and ends when it should."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.processes import accepts, ended, purgatory, until

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0


def get(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=PATIENCE_S) as reply:
        return reply.read().decode()


def counts_of(address):
    stats = json.loads(get(f"{address}/v1/admin/stats"))
    return {**stats["counts"], "leased": stats["queues"]["leased"]}


def test_a_bounded_demo_prints_its_address_and_ends_cleanly():
    code, output, errors = ended("demo", "--seconds", "6")  # longer than three frames take on a slow machine
    assert (code, errors) == (0, "")
    announcement, first, *rest = output.splitlines()
    address = re.fullmatch(r"purgatory demo answers at (http://127\.0\.0\.1:\d+)", announcement)[1]
    assert first == f"  look:  {address}/ui/"
    frames = [line for line in rest if "submitted" in line]
    assert len(frames) >= 3
    assert all(re.search(r"pending \d+  held \d+  submitted \d+/s  completed \d+/s", line) for line in frames)
    assert any(not re.search(r"completed 0/s", line) for line in frames)
    assert any(re.search(r"events read [1-9]", line) for line in frames)


def test_a_detached_demo_answers_until_it_is_stopped():
    code, output, errors = ended("demo", "--detach", "--seconds", "600")
    assert (code, errors) == (0, "")
    address = re.search(r"answers at (\S+)", output)[1]
    process = int(re.search(r"kill (\d+)", output)[1])
    log = Path(re.search(r"tail -f (\S+)", output)[1])
    try:
        assert os.getsid(process) == process
        assert f"curl {address}/metrics" in output
        until(lambda: json.loads(get(f"{address}/v1/operations?limit=3"))["operations"], "an operation")
        # Workers with jobs leased, and a reader of events.
        until(lambda: all(map(counts_of(address).get, ("leased", "takers", "streams"))))
    finally:
        os.kill(process, signal.SIGTERM)
    until(lambda: not accepts(int(address.rpartition(":")[2])), "its end")
    assert "Traceback" not in log.read_text(encoding="utf-8")
    log.unlink()


def test_a_demo_goes_on_when_its_service_takes_nothing_new():
    # Who counted on having submitted something would take all others with it.
    with purgatory("demo", "--rate", "300", stderr=subprocess.STDOUT) as demo:
        address = demo.stdout.readline().split()[-1]
        urllib.request.urlopen(f"{address}/v1/admin/drain", data=b"", timeout=PATIENCE_S).close()
        idle = 0  # lines in a row
        for _ in range(60):
            idle = idle + 1 if "submitted 0/s" in demo.stdout.readline() else 0
            if idle == 5:
                break
        assert idle == 5
        demo.send_signal(signal.SIGTERM)
        rest = demo.stdout.read()
        assert (demo.wait(PATIENCE_S), "Traceback" in rest) == (0, False), rest


def test_a_detached_demo_that_cannot_start_says_why():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output, errors = ended("demo", "--detach", "--port", port)
    assert (code, output) == (2, "")
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in errors
    assert errors.count("\n") == 1

"""The demo: it answers under its load, shows figures, and ends when it should."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "purgatory_async", "demo", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def get(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=PATIENCE) as reply:
        return reply.read().decode()


def counts_of(address):
    stats = json.loads(get(f"{address}/v1/admin/stats"))
    return {**stats["counts"], "leased": stats["queues"]["leased"]}


def test_a_bounded_demo_prints_its_address_and_ends_cleanly():
    demo = run("--seconds", "6")  # longer than three frames take on a slow machine
    assert (demo.returncode, demo.stderr) == (0, "")
    announcement, first, *rest = demo.stdout.splitlines()
    address = re.fullmatch(r"purgatory demo answers at (http://127\.0\.0\.1:\d+)", announcement)[1]
    assert first == f"  look:  {address}/ui/"
    frames = [line for line in rest if "submitted" in line]
    assert len(frames) >= 3
    assert all(re.search(r"pending \d+  held \d+  submitted \d+/s  completed \d+/s", line) for line in frames)
    assert any(not re.search(r"completed 0/s", line) for line in frames)
    assert any(re.search(r"events read [1-9]", line) for line in frames)


def test_a_detached_demo_answers_until_it_is_stopped():
    demo = run("--detach", "--seconds", "600")
    assert (demo.returncode, demo.stderr) == (0, "")
    address = re.search(r"answers at (\S+)", demo.stdout)[1]
    process = int(re.search(r"kill (\d+)", demo.stdout)[1])
    log = Path(re.search(r"tail -f (\S+)", demo.stdout)[1])
    try:
        assert os.getsid(process) == process
        assert f"curl {address}/metrics" in demo.stdout
        deadline = time.monotonic() + PATIENCE
        while not json.loads(get(f"{address}/v1/operations?limit=3"))["operations"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # Workers with jobs leased, and a reader of events.
        while not ((counts := counts_of(address))["leased"] and counts["takers"] and counts["streams"] == 1):
            assert time.monotonic() < deadline, counts
            time.sleep(0.02)
    finally:
        os.kill(process, signal.SIGTERM)
    while time.monotonic() < deadline:
        try:
            get(f"{address}/healthz")
        except (urllib.error.URLError, ConnectionError):
            break
        time.sleep(0.05)
    else:
        pytest.fail("it still answers")
    assert "Traceback" not in log.read_text(encoding="utf-8")
    log.unlink()


def test_a_demo_goes_on_when_its_service_takes_nothing_new():
    # Who counted on having submitted something would take all others with it.
    with subprocess.Popen(
        [sys.executable, "-m", "purgatory_async", "demo", "--rate", "300"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        try:
            address = demo.stdout.readline().split()[-1]
            urllib.request.urlopen(f"{address}/v1/admin/drain", data=b"", timeout=PATIENCE).close()
            idle = 0  # lines in a row
            for _ in range(60):
                idle = idle + 1 if "submitted 0/s" in demo.stdout.readline() else 0
                if idle == 5:
                    break
            assert idle == 5
        finally:
            demo.send_signal(signal.SIGTERM)
        rest = demo.stdout.read()
        assert (demo.wait(PATIENCE), "Traceback" in rest) == (0, False), rest


def test_a_detached_demo_that_cannot_start_says_why():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = run("--detach", "--port", str(port))
    assert (demo.returncode, demo.stdout) == (2, "")
    [sentence] = demo.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in sentence

"""``purgatory kafka``: starts, stops on a signal, and refuses in one sentence."""

import importlib
import re
import signal
import socket
import sys
import time
from contextlib import contextmanager
from math import inf

import confluent_kafka
import httpx2
import pytest

from purgatory_async import __main__
from purgatory_async.cli import commands, kafka
from tests.kafka import protocol
from tests.kafka.protocol import FETCH, METADATA
from tests.kafka.socketless import fetched
from tests.ports import free_port
from tests.processes import purgatory

PATIENCE_S = 60


def test_the_help_lists_the_command(capsys):
    assert commands.run(["--help"]) == 0
    assert "kafka" in capsys.readouterr().out
    assert commands.run(["kafka", "--help"]) == 0
    assert "Memory only, no security, no transactions" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--max-bytes", "0"], "max_bytes must be at least 1, got 0"),
        (["--max-bytes", "1MB"], "'--max-bytes': a size must follow [0-9]{1,15}(B|KiB|MiB|GiB)?, got '1MB'"),
        (["--max-groups", "0"], "max_groups must be at least 1, got 0"),
        (["--max-members", "0"], "max_members must be at least 1, got 0"),
        (["--host", "0.0.0.0"], "advertised_host must be given with host '0.0.0.0'"),
        (
            ["--replica-lag", "5w"],
            "'--replica-lag': a duration must follow ([0-9]{1,9}|[0-9]{0,9}[.][0-9]{1,9})(ms|s|m|h|d)?",
        ),
        (["--rebalance-delay", "-1s"], "'--rebalance-delay': a duration must follow"),
        (["--idle-timeout", "99999d"], "'--idle-timeout': must be from 0 to 3155760000 seconds, got 99999d"),
        (["--port", "65536"], "65536 is not in the range 0<=x<=65535"),
    ],
    ids=["bound", "size", "groups", "members", "host", "lag", "delay", "idle", "port"],
)
def test_a_wrong_option_is_refused_in_one_sentence(capsys, arguments, sentence):
    assert kafka.run(["kafka", "--port", "0", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("purgatory: ")
    assert sentence in line


@pytest.mark.parametrize(
    "option",
    ["replica_lag", "rebalance_delay", "idle_timeout", "min_session_timeout", "max_session_timeout"],
)
@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.2s", 0.2), ("5m", 300.0), ("250ms", 0.25), ("1h", 3600.0), (".5", 0.5), ("7", 7.0)],
)
def test_its_times_are_durations(monkeypatch, option, text, seconds):
    assert given(monkeypatch, f"--{option.replace('_', '-')}", text)[option] == seconds


@pytest.mark.parametrize(("text", "size"), [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("512", 512)])
def test_its_bytes_are_sizes(monkeypatch, text, size):
    assert given(monkeypatch, "--max-frame-bytes", text)["max_frame_bytes"] == size


def test_a_connection_may_be_idle_for_ever(monkeypatch):
    assert given(monkeypatch, "--idle-timeout", "inf")["idle_timeout"] == inf


def given(monkeypatch, *options):
    """What the command gives its broker."""
    settings = {}

    def refuse(**named):
        settings.update(named)
        raise ValueError("seen")

    monkeypatch.setattr("purgatory_async.kafka.Broker", refuse)
    assert kafka.run(["kafka", *options]) == 2
    return settings


@pytest.mark.parametrize("missing", ["kio", "crc32c", "uvloop", "click"])
def test_a_missing_extra_is_one_sentence_naming_it(capsys, lacking, monkeypatch, missing):
    lacking(missing, "purgatory_async.cli", "purgatory_async.kafka")
    monkeypatch.setattr(sys, "argv", ["purgatory", "kafka", "--port", "0"])
    with pytest.raises(SystemExit) as exit_:
        __main__.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == (
        f'purgatory: {missing} is not installed; run: pip install "purgatory-async[kafka]"\n'
    )


def test_the_package_without_its_extra_names_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("purgatory_async.kafka")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kio.index", None)
    with pytest.raises(ModuleNotFoundError, match=r'needs kio\.index.*purgatory-async\[kafka\]"'):
        importlib.import_module("purgatory_async.kafka")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(number):
    with purgatory("kafka", "--port", "0", "--partitions", "4", stderr=None) as process:
        line = process.stdout.readline()
        address = line.removeprefix("purgatory kafka serves at ").strip()
        producer = confluent_kafka.Producer({"bootstrap.servers": address})
        producer.produce("t", b"value")
        assert producer.flush(PATIENCE_S) == 0
        assert len(producer.list_topics("t", timeout=PATIENCE_S).topics["t"].partitions) == 4
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_waits_for_others(number):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        nodes = f"0@127.0.0.1:{free_port()},1@127.0.0.1:{silent.getsockname()[1]}"
        options = ["--nodes", nodes, "--replica-lag", "600"]
        with purgatory("kafka", *options, stdout=None, stderr=None) as process, silent.accept()[0] as asked:
            assert asked.recv(4)
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_a_held_fetch_shows_in_metrics_and_top(capsys):
    with served("--metrics-port", "0") as (lines, broker):
        metrics = lines[0].removeprefix("its metrics are at ").strip()
        host, port = broker.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
            client.sendall(protocol.with_length(protocol.request_frame(METADATA, 1, topics=[{"name": "t"}])))
            assert client.recv(4)
            fetch = fetched("t", 0, max_wait=PATIENCE_S * 1_000)
            client.sendall(protocol.with_length(protocol.request_frame(FETCH, 12, **fetch)))
            held = {**dict.fromkeys(("Produce", "DeleteRecords", "Rebalance"), "0.0"), "Fetch": "1.0"}
            patience = time.monotonic() + PATIENCE_S
            while (shown := waiting(metrics)) != held:
                assert time.monotonic() < patience, shown
            assert httpx2.post(metrics).status_code == 405
            assert httpx2.get(f"{metrics}/other").status_code == 404
            assert commands.run(["top", "--once", "--url", metrics.removesuffix("/metrics")]) == 0
            shown = " ".join(capsys.readouterr().out.split())
        assert f"kafka at {broker}" in shown
        assert "Fetch 1 1 DeleteRecords 0 0" in shown
        assert "busiest keys watchers t-0 1" in shown


def waiting(metrics: str) -> dict[str, str]:
    """Requests that wait, by purgatory."""
    text = httpx2.get(metrics, timeout=PATIENCE_S).text
    return dict(re.findall(r'_numdelayedoperations\{delayedOperation="(\w+)"\} (\S+)', text))


@contextmanager
def served(*options: str):
    """A broker in a process: what it prints, and its address."""
    with purgatory("kafka", "--port", "0", *options, stderr=None) as process:
        lines: list[str] = []
        while not (lines and lines[-1].startswith("purgatory kafka serves at ")):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        yield lines, lines[-1].removeprefix("purgatory kafka serves at ").strip()
        process.kill()


def test_a_missing_extra_of_the_metrics_is_one_sentence(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "purgatory_async.cli.kafka_figures", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert kafka.run(["kafka", "--port", "0", "--metrics-port", "0"]) == 2
    assert capsys.readouterr().err == (
        'purgatory: prometheus_client is not installed; run: pip install "purgatory-async[service]"\n'
    )


def test_metrics_on_a_taken_port_are_refused_in_one_sentence(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert kafka.run(["kafka", "--port", "0", "--metrics-port", port]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "in use" in line

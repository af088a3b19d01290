"""``purgatory kafka``: starts, stops on a signal, and refuses in one sentence."""

import builtins
import importlib
import signal
import subprocess
import sys

import confluent_kafka
import pytest

from purgatory_async import __main__
from purgatory_async.cli import commands, kafka

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
        (["--max-groups", "0"], "max_groups must be at least 1, got 0"),
        (["--max-members", "0"], "max_members must be at least 1, got 0"),
        (["--host", "0.0.0.0"], "advertised_host must be given with host '0.0.0.0'"),
        (["--port", "65536"], "65536 is not in the range 0<=x<=65535"),
    ],
    ids=["bound", "groups", "members", "host", "port"],
)
def test_a_wrong_option_is_refused_in_one_sentence(capsys, arguments, sentence):
    assert kafka.run(["kafka", "--port", "0", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("purgatory: ")
    assert sentence in line


@pytest.mark.parametrize("missing", ["kio", "crc32c", "uvloop", "click"])
def test_a_missing_extra_is_one_sentence_naming_it(capsys, monkeypatch, missing):
    real_import = builtins.__import__

    def without(name, *rest, **named):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real_import(name, *rest, **named)

    for name in list(sys.modules):
        if name.startswith(("purgatory_async.cli", "purgatory_async.kafka")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
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
    command = [sys.executable, "-m", "purgatory_async", "kafka", "--port", "0", "--partitions", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            address = line.removeprefix("purgatory kafka serves at ").strip()
            producer = confluent_kafka.Producer({"bootstrap.servers": address})
            producer.produce("t", b"value")
            assert producer.flush(PATIENCE_S) == 0
            assert len(producer.list_topics("t", timeout=PATIENCE_S).topics["t"].partitions) == 4
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()

"""Standard output that cannot be written: one sentence and exit code 2, whatever the command."""

import io
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from purgatory_async import __main__
from purgatory_async.cli import commands
from purgatory_async.cli.standard_output import Output
from tests.cli.faked import CALLS, LEASE, OPERATION, QUEUE, ended
from tests.cli.test_top import EMPTY

SENTENCE = (
    "purgatory: cannot write to standard output: No space left on device; make room, or write elsewhere\n"
)
ANSWERS = {
    "ls": {"operations": [OPERATION]},
    "why": OPERATION,
    "signal": {"completed": 1},
    "wait": ended("completed", 7),
    "cancel": ended("cancelled"),
    "drain": {"released": 0, "pending": 0},
    "top": EMPTY,
    "follow": {
        "signals": [{"key": "k", "index": 1}],
        "index": 1,
        "next": "e-1",
        "more": False,
        "gap": False,
    },
    "ask": ended("completed"),
    "link": {"url": "https://example.org/a/token", "expires_at": None},
    "answer": ended("completed"),
    "complete": ended("completed"),
    "fail": ended("failed"),
    "reschedule": OPERATION,
    "queues": {"queues": [QUEUE]},
    "put": {"id": "7", "delivered": True},
    "take": {"leases": [LEASE]},
    "extend": {"lease": "l", "expires_in": 3.0},
    "peek": {"items": [{"id": "7", "item": 1, "attempts": 0, "put_at": "2026-01-01T12:00:00Z"}]},
    "purge": {"purged": 1},
    "redrive": {"moved": 1},
}


def paths(command, *names):
    """The names of a command and of all below it."""
    yield names
    for name, below in getattr(command, "commands", {}).items():
        yield from paths(below, *names, name)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the program in this process with a full standard output; returns its exit code and standard error."""

    def run_in_place(*arguments):
        with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            patch.setattr(sys, "argv", ["purgatory", *arguments])
            with pytest.raises(SystemExit) as left:
                __main__.main()
            sys.stdout.close()  # which flushes, as at the end of a process
        return left.value.code, capsys.readouterr().err

    return run_in_place


@pytest.mark.parametrize("names", list(paths(commands.purgatory)), ids=" ".join)
def test_the_help_of_every_command_needs_room(run, names):
    assert run(*names, "--help") == (2, SENTENCE)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_to_every_command_needs_room(faked, run, name):
    faked.reply = httpx2.Response(200, json=ANSWERS[name])
    assert run(*CALLS[name]) == (2, SENTENCE)


@pytest.mark.parametrize("arguments", [[], ["--version"], ["config"], ["ls", "--json"], ["queues", "--json"]])
def test_so_does_everything_else_that_is_printed(faked, run, arguments):
    answer = ANSWERS.get("".join(arguments[:1]), {})
    faked.reply = httpx2.Response(200, json=answer)
    assert run(*arguments) == (2, SENTENCE)


def test_completion_needs_room(monkeypatch, run):
    monkeypatch.setenv("_PURGATORY_COMPLETE", "zsh_source")
    assert run() == (2, SENTENCE)


def test_the_other_commands_print_nothing():
    assert CALLS.keys() - ANSWERS.keys() == {"ack", "forget", "return"}


def test_another_error_is_none_of_the_output(monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commands, "run", fail)
    monkeypatch.setattr(sys, "argv", ["purgatory", "ls"])
    with pytest.raises(OSError, match="No space"):
        __main__.main()


def test_a_closed_pipe_ends_a_command_without_a_word(faked, monkeypatch, capsys):
    faked.reply = httpx2.Response(200, json=ANSWERS["ls"])
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(sys, "argv", ["purgatory", "ls"])
        with pytest.raises(SystemExit) as left:
            __main__.main()
        sys.stdout.close()
    assert (left.value.code, capsys.readouterr().err) == (1, "")


def test_an_output_that_is_no_file_stays(monkeypatch):
    for stream in (None, io.StringIO(), io.TextIOWrapper(io.BytesIO())):
        monkeypatch.setattr(sys, "stdout", stream)
        assert Output.take() is None
        assert sys.stdout is stream


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["config"],
        ["pipeline"],
        ["kafka", "--help"],
        ["demo", "--seconds", "5"],
        ["pipeline", "report", "--help"],
    ],
    ids=" ".join,
)
def test_a_process_ends_with_the_sentence_alone(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "purgatory_async", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, SENTENCE)

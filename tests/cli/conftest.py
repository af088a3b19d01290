"""Fixtures of the command tests."""

import builtins
import sys

import pytest

from purgatory_async.cli import commands
from tests.cli.faked import Faked


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch):
    for name in ("PURGATORY_URL", "PURGATORY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lacking(monkeypatch):
    """Let no module of a package be imported, and the parts of ours that are named be imported anew."""
    imported = builtins.__import__

    def lacking(missing, *ours):
        def without(name, *rest, **named):
            if name.partition(".")[0] == missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return imported(name, *rest, **named)

        for name in [name for name in sys.modules if name.startswith(ours)]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(builtins, "__import__", without)

    return lacking


@pytest.fixture
def faked(monkeypatch):
    return Faked(monkeypatch)


@pytest.fixture
def cli(capsys):
    """Run a command; returns its exit code, standard output and the lines of standard error."""

    def run(*arguments):
        code = commands.run(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err.splitlines()

    return run

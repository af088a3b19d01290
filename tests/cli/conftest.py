"""Fixtures of the command tests."""

import pytest

from purgatory_async.cli import commands
from tests.cli.faked import Faked


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch):
    for name in ("PURGATORY_URL", "PURGATORY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


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

"""``purgatory config``: each setting, its value and its source; the clients' variables change none."""

from dataclasses import fields

import pytest

from purgatory_async.cli import commands
from purgatory_async.service.contract.version import CORE
from purgatory_async.service.settings.settings import Settings


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch):
    for known in fields(Settings):
        monkeypatch.delenv(f"PURGATORY_{known.name.upper()}", raising=False)


def shown(capsys, *arguments):
    assert commands.run(["config", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in lines}


def test_every_setting_is_shown_with_its_default(capsys):
    table = shown(capsys)
    assert table.pop("core").split(maxsplit=1)[0] == CORE
    assert list(table) == [known.name for known in fields(Settings)]
    assert all(line.endswith("the default") for line in table.values())
    assert table["max_wait"].split()[0] == "55.0"


def test_the_source_of_each_is_the_one_that_had_the_last_word(capsys, monkeypatch, tmp_path):
    path = tmp_path / "purgatory.toml"
    path.write_text('max_wait = "1s"\nretention = "2s"\nmax_items = 3\nport = 4')
    monkeypatch.setenv("PURGATORY_MAX_WAIT", "5s")
    monkeypatch.setenv("PURGATORY_RETENTION", "6s")
    table = shown(capsys, "--config", str(path), "--max-wait", "7s")
    assert table["max_wait"].split(maxsplit=1) == ["7.0", "the command line"]
    assert table["retention"].split(maxsplit=1) == ["6.0", "the environment"]
    assert table["max_items"].split(maxsplit=1) == ["3", "the configuration file"]
    assert table["jitter"].endswith("the default")


@pytest.mark.parametrize(
    "arguments", [["--max-wait", "5w"], ["--host", "0.0.0.0"], ["--config", "/nowhere.toml"]]
)
def test_what_serve_would_refuse_is_refused(capsys, arguments):
    assert commands.run(["config", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


def test_the_variables_of_clients_and_library_are_no_settings(capsys, monkeypatch):
    monkeypatch.setenv("PURGATORY_ASYNC_PURE", "1")
    monkeypatch.setenv("PURGATORY_URL", "http://elsewhere:1")
    monkeypatch.setenv("PURGATORY_TOKEN", "the-secret")
    caught = []
    monkeypatch.setattr(commands, "serve", lambda settings, announce: caught.append(settings))
    assert commands.run(["serve"]) == 0
    assert caught == [Settings()]
    shown(capsys)
    assert commands.run(["config"]) == 0
    assert "the-secret" not in capsys.readouterr().out

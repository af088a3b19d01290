"""The command line: refusals in one sentence, help with an example."""

import sys

import pytest

import purgatory_async
from purgatory_async import __main__
from purgatory_async.cli import commands
from purgatory_async.cli.arguments import Duration
from purgatory_async.service.contract.version import VERSION
from tests.cli.faked import REMOTE


def started(monkeypatch):
    """Catch the settings that a service would be started with."""
    caught = []
    monkeypatch.setattr(commands, "serve", lambda settings, announce: caught.append(settings))
    return caught


def test_flags_win_over_the_environment_and_that_over_the_file(monkeypatch, tmp_path):
    caught = started(monkeypatch)
    path = tmp_path / "purgatory.toml"
    path.write_text('max_wait = "1s"\nretention = "2s"\nport = 3')
    monkeypatch.setenv("PURGATORY_MAX_WAIT", "4s")
    monkeypatch.setenv("PURGATORY_RETENTION", "5s")
    assert commands.run(["serve", "--config", str(path), "--max-wait", "6s"]) == 0
    [settings] = caught
    assert (settings.max_wait, settings.retention, settings.port) == (6.0, 5.0, 3)


def test_insecure_is_a_flag_and_absent_by_default(monkeypatch):
    caught = started(monkeypatch)
    monkeypatch.setenv("PURGATORY_INSECURE", "true")
    commands.run(["serve", "--host", "0.0.0.0"])
    monkeypatch.delenv("PURGATORY_INSECURE")
    commands.run(["serve", "--host", "0.0.0.0", "--insecure"])
    assert [settings.insecure for settings in caught] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["serve", "--max-wiat", "5s"], "--max-wiat", id="unknown flag"),
        pytest.param(["serve", "--max-wait", "5w"], "'5w'", id="bad value"),
        pytest.param(["serve", "--port", "-1"], "'-1'", id="bad port"),
        pytest.param(["serve", "--config", "/nowhere.toml"], "/nowhere.toml", id="no such file"),
        pytest.param(["serve", "--host", "0.0.0.0"], "0.0.0.0", id="an address others can reach"),
        pytest.param(
            ["serve", "--host", "no\u00a0host.invalid", "--insecure"], "cannot listen", id="no such address"
        ),
        pytest.param(["demo", "--seconds", "0"], "0", id="a demo of no time"),
        pytest.param(["demo", "--rate", "many"], "many", id="a rate that is none"),
        pytest.param(["bogus"], "bogus", id="unknown command"),
    ],
)
def test_a_refused_start_is_one_sentence_on_stderr_and_exit_2(capsys, arguments, sentence):
    assert commands.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith("purgatory: ")
    assert sentence in line


def test_an_unknown_variable_of_ours_is_refused_by_name(capsys, monkeypatch):
    monkeypatch.setenv("PURGATORY_MAX_WIAT", "5s")
    assert commands.run(["serve"]) == 2
    assert "unknown setting 'max_wiat' in the environment" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["serve", "--help"], ["demo", "--help"]])
def test_every_help_has_an_example_that_could_be_pasted(capsys, arguments):
    assert commands.run(arguments) == 0
    out = capsys.readouterr().out
    assert "\n  Example:\n    purgatory " in out


def test_the_version_is_that_of_the_package(capsys):
    assert commands.run(["--version"]) == 0
    core = "compiled" if purgatory_async.compiled else "pure"
    assert capsys.readouterr().out == f"purgatory {VERSION} ({core})\n"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        *((name, "PURGATORY_URL") for name in REMOTE),
        *((name, "the scope admin") for name in ("drain", "top")),
        ("serve", "16 characters"),
    ],
)
def test_the_help_names_what_a_command_needs(capsys, command, shown):
    assert commands.run([command, "--help"]) == 0
    assert shown in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("missing", ["uvloop", "httptools", "msgspec", "click", "rich", "prometheus_client"])
def test_a_missing_extra_is_one_sentence_naming_it(capsys, lacking, missing):
    lacking(missing, "purgatory_async.cli", "purgatory_async.service", "purgatory_async.metrics")
    with pytest.raises(SystemExit) as exit_:
        __main__.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == (
        f'purgatory: {missing} is not installed; run: pip install "purgatory-async[service]"\n'
    )


def test_a_missing_module_of_ours_is_a_fault(monkeypatch):
    monkeypatch.setitem(sys.modules, "purgatory_async.cli.commands", None)
    with pytest.raises(ModuleNotFoundError, match=r"purgatory_async\.cli\.commands"):
        __main__.main()


def test_a_detached_demo_gets_its_time_in_the_same_spelling(monkeypatch):
    caught = []
    monkeypatch.setattr(commands, "detach", lambda *given: caught.append(given))
    assert commands.run(["demo", "--detach", "--seconds", "20d"]) == 0
    ((arguments, seconds),) = caught
    passed = arguments[arguments.index("--seconds") + 1]
    assert Duration().convert(passed, None, None) == seconds == 1_728_000

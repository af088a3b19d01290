"""Progress is shown on a terminal only."""

import sys

import pytest

from purgatory_async.pipeline.jobs.frame import progress


def test_without_a_terminal_nothing_is_written(capsys):
    with progress("report") as say:
        say("reading")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("step", ["reading", "[bold]not markup[/bold]"])
def test_on_a_terminal_the_step_stands_on_standard_error(capsys, monkeypatch, step):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress("report") as say:
        say(step)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"report: {step}" in err

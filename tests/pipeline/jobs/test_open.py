"""``--open`` of the commands that write a page; their jobs are replaced, so no Spark starts."""

import json
import webbrowser
from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from purgatory_async.pipeline.jobs import report, whatif
from purgatory_async.pipeline.jobs.frame import open_page
from purgatory_async.pipeline.locations import parsed


@pytest.fixture(params=[(report, "report.html", []), (whatif, "whatif.html", ["--timeout", "1"])])
def job(request, monkeypatch, tmp_path):
    """Run a command with more arguments; returns its page and its result."""
    module, name, own = request.param
    (tmp_path / "run.node.000001.jsonl").touch()
    page = tmp_path / "out" / name

    def write(*arguments):
        (stage,) = (path for path in tmp_path.iterdir() if path.name.startswith(".out-"))
        (stage / name).write_text("page")
        return {"operations": 0}

    monkeypatch.setattr(module, "open_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(module, "check_shared", lambda *_: None)
    monkeypatch.setattr(module, "run", write)
    given = ["--journal", str(tmp_path), "--out", str(page.parent), *own]
    return page, lambda *more: CliRunner().invoke(module.command, [*given, *more])


@pytest.mark.parametrize("starts", [True, False], ids=["a browser", "no browser"])
def test_the_page_is_opened_once_it_is_in_place(job, monkeypatch, starts):
    page, invoke = job
    opened = []

    def start(address):
        opened.append((address, page.read_text()))
        return starts

    monkeypatch.setattr(webbrowser, "open", start)
    result = invoke("--open")
    assert result.exit_code == 0, result.output
    assert opened == [(page.as_uri(), "page")]
    said = f"opened {page.as_uri()} in the browser"
    assert result.stderr.splitlines() == [
        said if starts else f"no browser can be started here; open {page.as_uri()} in one"
    ]
    assert json.loads(result.stdout) == {"operations": 0}


def test_without_the_option_no_browser_is_started(job, monkeypatch):
    _, invoke = job
    monkeypatch.setattr(webbrowser, "open", None)
    result = invoke()
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_a_page_in_a_store_is_named_and_no_browser_started(monkeypatch, capsys):
    monkeypatch.setattr(webbrowser, "open", None)
    open_page(parsed("s3a://bucket/out/report.html"))
    said = capsys.readouterr().err
    assert said == "no browser opens a page in a store; copy s3a://bucket/out/report.html to this machine\n"

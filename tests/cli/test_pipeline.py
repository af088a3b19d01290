"""The pipeline's commands as a group: found by their modules, loaded late, without the service's packages."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from purgatory_async import __main__
from purgatory_async.cli import commands, pipeline
from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.jobs.frame import journal_option, out_option, spark_options, summary
from tests.source_tree import ROOT

INSTALL = 'purgatory: {} is not installed; run: pip install "purgatory-async[spark]"\n'


@pytest.fixture
def job(monkeypatch, tmp_path):
    """A command in the place of ``workload``, whose doings can be changed, and a journal for it."""
    (tmp_path / "run.node.000001.jsonl").touch()
    made = SimpleNamespace(does=lambda **_: None)

    @click.command("workload")
    @journal_option
    @out_option
    @spark_options
    def command(**given):
        """Perform the step of the test."""
        made.does(**given)

    monkeypatch.setattr(pipeline, "import_module", lambda name: SimpleNamespace(command=command))
    return made


@pytest.fixture
def beside_a_file(monkeypatch, tmp_path):
    """A working directory with a file, a journal, and a directory without one."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "run.node.000001.jsonl").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_command_list_describes_each_and_loads_none(capsys, monkeypatch, arguments):
    # The fault: Spark is imported, which takes a second, to print a line of help.
    monkeypatch.setattr(pipeline, "import_module", None)
    assert pipeline.run(["pipeline", *arguments]) == 0
    out = capsys.readouterr().out
    assert "\n  Example:\n    purgatory pipeline " in out
    assert "\n  workload " in out


@pytest.mark.parametrize("holds", ["import pyspark.sql.datasource", "from pyspark import what_is_new"])
def test_a_spark_that_is_too_old_is_named_with_its_place(capsys, monkeypatch, tmp_path, holds):
    # As another installation's, which its documentation puts into PYTHONPATH.
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "pyspark", None)  # so that its end takes the faked one out again
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(pipeline, "import_module", lambda _: exec(holds))
    assert pipeline.run(["pipeline", "windows"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"purgatory: pyspark in {tmp_path / 'pyspark'} does not fit: ")
    assert line.endswith('; take it out of PYTHONPATH, or run: pip install "purgatory-async[spark]"')


def test_a_command_whose_module_is_not_there_is_not_listed(capsys, monkeypatch):
    monkeypatch.setitem(pipeline.COMMANDS, "sideways", "A job without a module.")
    pipeline.run(["pipeline"])
    assert "sideways" not in capsys.readouterr().out
    assert pipeline.run(["pipeline", "sideways"]) == 2


def test_every_command_among_the_jobs_is_in_the_list():
    jobs = (ROOT / "purgatory_async" / "pipeline" / "jobs").glob("*.py")
    made = {path.stem for path in jobs if "@click.command(" in path.read_text(encoding="utf-8")}
    assert "workload" in made
    assert made <= set(pipeline.COMMANDS)


def test_purgatory_lists_the_pipeline_and_refuses_alike(capsys, job):
    commands.run([])
    assert "\n  pipeline " in capsys.readouterr().out
    refused = []
    for run in (commands.run, pipeline.run):
        assert run(["pipeline", "workload", "--out", ""]) == 2
        refused.append(capsys.readouterr().err)
    assert refused[0] == refused[1]


def test_the_group_help_needs_neither_service_nor_spark():
    script = (
        "import sys; from purgatory_async.__main__ import main; sys.argv[1:] = ['pipeline', '--help']\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = set(done.stderr.split())
    needless = {
        "httpx2",
        "starlette",
        "uvicorn",
        "prometheus_client",
        "uvloop",
        "pyspark",
        "pyarrow",
        "numpy",
    }
    assert "click" in loaded
    assert loaded & needless == set()


def test_without_click_one_sentence_names_the_right_extra(capsys, lacking, monkeypatch):
    lacking("click", "purgatory_async.cli")
    monkeypatch.setattr(sys, "argv", ["purgatory", "pipeline", "workload", "--help"])
    with pytest.raises(SystemExit) as exit_:
        __main__.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == INSTALL.format("click")


def test_a_missing_need_of_a_job_names_the_right_extra(capsys, monkeypatch):
    def fail(name):
        raise ModuleNotFoundError(name, name="absent.parquet")

    monkeypatch.setattr(pipeline, "import_module", fail)
    assert pipeline.run(["pipeline", "workload", "--help"]) == 2
    assert capsys.readouterr().err == INSTALL.format("absent")


def test_a_missing_module_of_ours_is_a_fault(monkeypatch):
    def fail(name):
        raise ModuleNotFoundError(name, name="purgatory_async.pipeline.nothing")

    monkeypatch.setattr(pipeline, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="workload"):
        pipeline.run(["pipeline", "workload"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--journal"),
        (["--journal", "."], "--out"),
        (["--journal", "", "--out", "o"], "''"),
        (["--journal", "nowhere", "--out", "o"], "'nowhere' cannot be read: No such file"),
        (["--journal", "empty", "--out", "o"], "'empty' must have segments of a journal"),
        (["--journal", "file", "--out", "o"], "'file' cannot be read: Not a directory"),
        (["--journal", ".", "--out", ""], "''"),
        (["--journal", ".", "--out", "o", "--master", "here"], "must be like local[2]"),
        (["--journal", ".", "--out", "o", "--remote", "here"], "must be like sc://host:15002"),
        (["--journal", ".", "--out", "o", "--remote", "sc://h", "--master", "local"], "exclude each other"),
    ],
)
@pytest.mark.usefixtures("job", "beside_a_file")
def test_a_bad_option_is_one_line_that_names_it(capsys, arguments, said):
    assert pipeline.run(["pipeline", "workload", *arguments]) == 2
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert out == ""
    assert line.startswith("purgatory: ")
    assert said in line


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]", "local-cluster[1,1,1024]"])
def test_where_spark_is_reaches_the_job(job, tmp_path, master):
    given = {}
    job.does = lambda **options: given.update(options)
    arguments = ["--journal", str(tmp_path), "--out", str(tmp_path / "o"), "--master", master]
    assert pipeline.run(["pipeline", "workload", *arguments]) == 0
    assert given == {"journal": tmp_path, "out": tmp_path / "o", "master": master, "remote": None}


def test_a_refusal_of_a_job_is_one_line_whatever_is_in_it(capsys, job, tmp_path):
    def refuse(**_):
        raise Refused("line\n\x1b[2Jtwo")

    job.does = refuse
    assert pipeline.run(["pipeline", "workload", "--journal", str(tmp_path), "--out", "o"]) == 2
    assert capsys.readouterr().err == "purgatory: line\\n\\x1b[2Jtwo\n"


def test_the_summary_is_the_last_line_and_json(capsys, job, tmp_path):
    job.does = lambda **_: summary({"rate": 0.5, "none": None, "name": "\udcff"})
    assert pipeline.run(["pipeline", "workload", "--journal", str(tmp_path), "--out", "o"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {
        "rate": 0.5,
        "none": None,
        "name": "\udcff",
    }


def test_a_summary_without_a_number_is_no_json_and_is_refused(job):
    with pytest.raises(ValueError, match="JSON"):
        summary({"rate": float("nan")})


def test_a_job_that_is_terminated_cleans_up_and_is_one_line(capsys, job, tmp_path):
    # The fault: SIGTERM ends Python at once, and half a result stays behind.
    cleaned = []

    def wait(**_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            cleaned.append(True)
            raise ConnectionResetError  # by Spark's Java, which the same signal ended

    job.does = wait
    before = signal.getsignal(signal.SIGTERM)
    assert pipeline.run(["pipeline", "workload", "--journal", str(tmp_path), "--out", "o"]) == 143
    assert cleaned == [True]
    assert capsys.readouterr().err == "purgatory: terminated; only complete results are in place\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupted_job_ends_with_130(job, tmp_path):
    def interrupt(**_):
        raise KeyboardInterrupt

    job.does = interrupt
    assert pipeline.run(["pipeline", "workload", "--journal", str(tmp_path), "--out", "o"]) == 130

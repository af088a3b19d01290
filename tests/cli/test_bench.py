"""``purgatory bench``: finds the benchmarks of its checkout, passes arguments on, and reports their absence."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from purgatory_async.cli import bench
from tests.source_tree import ROOT


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """A checkout with two benchmarks and a package that is no benchmark; runs are recorded, not started."""
    for name in ("core", "proposal"):
        (tmp_path / "bench" / name).mkdir(parents=True)
        (tmp_path / "bench" / name / "__main__.py").touch()
    (tmp_path / "bench" / "measure").mkdir()
    made = SimpleNamespace(root=tmp_path, code=0, started=[])

    def run(command, **how):
        made.started.append((command, how))
        return SimpleNamespace(returncode=made.code)

    monkeypatch.setattr(bench, "_root", lambda: tmp_path)
    monkeypatch.setattr(bench.subprocess, "run", run)
    return made


def test_a_benchmark_runs_as_a_module_with_its_arguments(checkout, cli):
    # The fault: the command reads the benchmark's options as its own.
    assert cli("bench", "proposal", "--quick", "--only", "wait", "--help") == (0, "", [])
    [(command, _)] = checkout.started
    assert command == [sys.executable, "-m", "bench.proposal", "--quick", "--only", "wait", "--help"]


def test_its_exit_code_is_the_commands(checkout, cli):
    checkout.code = 3
    assert cli("bench", "core")[0] == 3


def test_it_imports_the_checkout_and_runs_in_the_callers_folder(checkout, cli, monkeypatch):
    # The faults: --json FILE is written into the checkout; a directory called bench at the caller's is run.
    monkeypatch.setenv("PYTHONPATH", "theirs")
    cli("bench", "core")
    [(_, how)] = checkout.started
    assert how["env"]["PYTHONPATH"] == f"{checkout.root}{os.pathsep}theirs"
    assert how["env"]["PYTHONSAFEPATH"] == "1"
    assert "cwd" not in how


def test_an_unknown_benchmark_is_refused_with_the_known_ones(checkout, cli):
    code, out, [complaint] = cli("bench", "measure")
    assert (code, out) == (2, "")
    assert "NAME must be one of core, proposal, got 'measure'" in complaint
    assert checkout.started == []


def test_outside_a_checkout_one_sentence_says_what_to_do(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "_root", lambda: tmp_path)
    code, out, [complaint] = cli("bench", "core")
    assert (code, out) == (2, "")
    assert "clone the repository" in complaint
    assert "pip install" in complaint


def test_its_help_lists_the_benchmarks_and_an_example(checkout, cli):
    code, out, _ = cli("bench", "--help")
    assert code == 0
    assert "\n  Example:\n    purgatory bench core --quick\n" in out
    assert "\n  core " in out
    assert "\n  service " not in out


def test_every_benchmark_of_this_checkout_says_what_it_measures():
    found = bench.benchmarks(ROOT)
    assert "core" in found
    assert set(found) <= set(bench._PURPOSES)


@pytest.mark.slow
def test_a_real_one_answers_from_another_directory(tmp_path):
    (tmp_path / "bench").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "purgatory_async", "bench", "core", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "python -m bench.core" in done.stdout

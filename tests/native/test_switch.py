"""Which core runs: the variable, and an extension that is absent, broken or built from other sources."""

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from runpy import run_path

import pytest

from tests.source_tree import PACKAGE, ROOT

SHOW = "import purgatory_async; print(purgatory_async.compiled)"


def imported(folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Import the package that lies in a folder, in a new process that prints whether it is compiled."""
    kept = {name: value for name, value in os.environ.items() if name != "PURGATORY_ASYNC_PURE"}
    return subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=folder,
        env={**kept, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a copy of the package, without an extension."""
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "build-*")
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE, ignore=ignored)
    return tmp_path


def test_the_reference_runs_on_request() -> None:
    found = imported(PURGATORY_ASYNC_PURE="1")
    assert (found.stdout, found.stderr) == ("False\n", "")


@pytest.mark.parametrize("value", ["", "0"])
def test_an_empty_variable_or_zero_changes_nothing(value: str) -> None:
    assert imported(PURGATORY_ASYNC_PURE=value).stdout == imported().stdout


def test_another_value_of_the_variable_is_refused() -> None:
    found = imported(PURGATORY_ASYNC_PURE="yes")
    assert found.returncode == 1
    assert found.stderr.endswith("ValueError: PURGATORY_ASYNC_PURE must be 0 or 1, got 'yes'\n")


def test_an_absent_extension_is_no_trouble(tree: Path) -> None:
    found = imported(tree)
    assert (found.stdout, found.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    ("name", "text", "trouble"),
    [
        pytest.param(
            f"_core{EXTENSION_SUFFIXES[0]}", "x", "cannot be imported (ImportError", id="no library"
        ),
        pytest.param(
            "_core.py", "import absent", "cannot be imported (No module named 'absent')", id="a lack"
        ),
        pytest.param("_core.py", "1 / 0", "cannot be imported (ZeroDivisionError", id="an error"),
        pytest.param("_core.py", "sources = 'older'", "was built from other sources", id="stale"),
    ],
)
def test_an_unusable_extension_is_warned_of_once(tree: Path, name: str, text: str, trouble: str) -> None:
    (tree / PACKAGE / "native" / name).write_text(text, encoding="utf-8")
    found = imported(tree)
    assert found.stdout == "False\n"
    assert found.stderr.count("RuntimeWarning") == 1
    assert f"the compiled core {trouble}" in found.stderr
    assert "rebuild it with python purgatory_async/native/build.py, or reinstall" in found.stderr


def test_the_mark_changes_with_any_source(tmp_path: Path) -> None:
    shutil.copy(ROOT / PACKAGE / "native" / "switch.py", tmp_path)

    def mark() -> str | None:
        found: str | None = run_path(str(tmp_path / "switch.py"))["sources_mark"]()
        return found

    assert mark() is None
    marks = set()
    for name, text in (("a.pyx", "1"), ("a.pyx", "2"), ("b.pxi", "1"), ("b.pxi", "12"), ("c.pxi", "")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        marks.add(mark())
    assert len(marks) == 5

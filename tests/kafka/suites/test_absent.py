"""The list of what fails by design: the run of a suite passes only if it is exact."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SUITE = """
import unittest
import pytest

@pytest.fixture
def broken():
    raise RuntimeError

def test_passes(): pass
def test_fails(): assert False
def test_cannot_begin(broken): pass
def test_is_skipped(): pytest.skip()

class TestOld(unittest.TestCase):
    def test_fails(self): self.fail()
"""
FAILING = ["test_fails", "test_cannot_begin", "TestOld::test_fails"]


@pytest.mark.parametrize(
    ("listed", "status", "said"),
    [
        (FAILING, 0, "1 passed, 1 skipped, 3 xfailed"),
        (FAILING[:2], 1, "FAILED test_suite.py::TestOld::test_fails"),
        *(
            ([*FAILING, name], 1, f"listed as absent, but does not fail: test_suite.py::{name}")
            for name in ("test_passes", "test_is_skipped", "test_is_gone")
        ),
    ],
    ids=["exact", "unlisted", "passes", "is-skipped", "is-gone"],
)
def test_a_run_passes_only_with_an_exact_list(tmp_path, listed, status, said):
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\n", encoding="utf-8"
    )  # or a folder above may have settings
    lines = ["# No brokers.", "", *(f"test_suite.py::{name}" for name in listed)]
    (tmp_path / "absent.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "absent", "--absent=absent.txt", "-rf", "--tb=no"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == status
    assert said in ended.stdout

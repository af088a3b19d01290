"""The pytest plugin: a clock, a purgatory on it, and a teardown error that says what was left in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from purgatory_async import DelayedOperation

ROOT = Path(__file__).parent.parent.parent

LEAKING = """
from purgatory_async import DelayedOperation

class Parcel(DelayedOperation):
    pass

def test_leaks(purgatory):
    purgatory.try_complete_else_watch(Parcel(timeout=3600), ["door", ("floor", 3)])
"""

CLEAN = """
from purgatory_async import DelayedOperation, Outcome

def test_is_clean(purgatory, manual_clock):
    operation = DelayedOperation(timeout=3600)
    purgatory.try_complete_else_watch(operation, ["door"])
    manual_clock.advance(3600)
    assert operation.outcome is Outcome.EXPIRED
"""


class Report:
    """What pytest says about a file of tests."""

    def __init__(self, folder: Path, text: str, *options: str) -> None:
        (folder / "test_it.py").write_text(text)
        # Not the settings of this suite, nor any plugin but ours.
        arguments = [
            "-p",
            "no:cacheprovider",
            "-p",
            "purgatory_async.testing.plugin",
            "-c",
            "none.ini",
            *options,
        ]
        (folder / "none.ini").write_text("[pytest]\n")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=folder,
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        self.text = ended.stdout + ended.stderr
        self.summary = self.text.strip().splitlines()[-1]


def test_a_leaking_test_passes_but_its_teardown_is_an_error_that_names_operation_and_keys(
    tmp_path: Path,
) -> None:
    report = Report(tmp_path, LEAKING)
    assert "1 passed, 1 error" in report.summary
    assert "ERROR at teardown of test_leaks" in report.text
    assert "Parcel pending on 'door', ('floor', 3)" in report.text


def test_a_clean_test_just_passes(tmp_path: Path) -> None:
    report = Report(tmp_path, CLEAN)
    assert report.summary.split(" in ")[0].strip("= ") == "1 passed", report.text


def test_each_test_has_a_purgatory_of_its_own(tmp_path: Path) -> None:
    report = Report(tmp_path, LEAKING + CLEAN)
    assert "2 passed, 1 error" in report.summary


def test_a_failing_test_is_told_apart_from_its_leak(tmp_path: Path) -> None:
    report = Report(tmp_path, LEAKING + "    assert purgatory.closed, 'the test itself'\n")
    assert "1 failed, 1 error" in report.summary
    assert "the test itself" in report.text


def test_its_fixtures_are_listed_with_what_they_give(tmp_path: Path) -> None:
    report = Report(tmp_path, CLEAN, "--fixtures")
    for name in ("manual_clock", "purgatory"):
        assert f"{name} --" in report.text


def test_the_purgatory_stands_on_the_manual_clock(purgatory, manual_clock) -> None:
    manual_clock.advance(1.5)
    assert purgatory.timer.time() == manual_clock.time() == 1.5


@pytest.mark.asyncio
async def test_the_purgatory_serves_an_async_test(purgatory) -> None:
    purgatory.try_complete_else_watch(operation := DelayedOperation(), ["door"])
    assert purgatory.complete_for_key("door", "open") == 1
    assert operation.result == "open"

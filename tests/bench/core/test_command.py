"""``python -m bench.core`` runs, and prints every section."""

import pytest

from bench.core.__main__ import main
from bench.core.sections import SECTIONS
from tests.bench.quick import run_quick


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    printed, lines = run_quick("bench.core", SECTIONS, tmp_path)
    assert " targets met, " in printed
    assert {line["verdict"] for line in lines} <= {"met", "MISSED", "shown"}


def test_only_runs_the_section_asked_for_on_the_loop_asked_for(capsys):
    assert main(["--quick", "--repeats", "1", "--only", "wheel", "--loops", "asyncio"]) == 0
    printed = capsys.readouterr().out
    assert "\n== wheel: " in printed
    assert "\n== kafka: " not in printed
    assert "uvloop call_later" not in printed


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []

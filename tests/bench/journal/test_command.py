"""``python -m bench.journal`` runs, and prints every section."""

import pytest

from bench.journal.__main__ import main
from bench.journal.sections import SECTIONS
from tests.bench.quick import run_quick


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    _, lines = run_quick("bench.journal", SECTIONS, tmp_path)
    assert [line["name"] for line in lines if not line["ours"] > 0] == []
    costs = [line["name"] for line in lines if line["section"] == "cost"]
    ways = ("an observer that does nothing", "journal, always", "journal, group", "journal, os")
    assert [way for way in ways if f"the process: {way} / no observer" not in costs] == []


def test_only_runs_the_section_asked_for_on_the_loop_asked_for(capsys):
    assert main(["--quick", "--repeats", "1", "--only", "encoding", "--loops", "asyncio"]) == 0
    printed = capsys.readouterr().out
    assert "\n== encoding: " in printed
    assert "\n== cost: " not in printed
    assert " uvloop " not in printed.partition("\n== ")[2]


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []

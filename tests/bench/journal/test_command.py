"""``python -m bench.journal`` runs, and prints every section."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.journal.__main__ import main
from bench.journal.sections import SECTIONS

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    written = tmp_path / "figures.json"
    finished = subprocess.run(
        [sys.executable, "-m", "bench.journal", "--quick", "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert [name for name in SECTIONS if f"\n== {name}: " not in finished.stdout] == []
    document = json.loads(written.read_text(encoding="utf-8"))
    assert {line["section"] for line in document["lines"]} == set(SECTIONS)
    assert [line["name"] for line in document["lines"] if not line["ours"] > 0] == []
    costs = [line["name"] for line in document["lines"] if line["section"] == "cost"]
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

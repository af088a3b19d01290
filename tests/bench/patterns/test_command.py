"""``python -m bench.patterns`` runs, and prints every section."""

import pytest

from bench.patterns.__main__ import main
from bench.patterns.sections import SECTIONS
from tests.bench.quick import run_quick


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    printed, lines = run_quick("bench.patterns", SECTIONS, tmp_path)
    assert " targets met, 0 missed, " in printed
    assert {line["verdict"] for line in lines} <= {"met", "shown"}
    counted = [line for line in lines if line["section"] == "hand-off"]
    assert sum(line["lost"] for line in counted if line["ours"]) == 0
    assert sum(line["lost"] for line in counted if not line["ours"]) > 0


def test_only_runs_the_section_asked_for_on_the_loop_asked_for(capsys):
    assert main(["--quick", "--repeats", "1", "--only", "watermark", "--loops", "asyncio"]) == 0
    printed = capsys.readouterr().out
    assert "\n== watermark: " in printed
    assert "\n== hand-off: " not in printed
    assert " uvloop " not in printed.partition("\n== ")[2]


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []

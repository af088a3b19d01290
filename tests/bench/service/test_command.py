"""``python -m bench.service`` runs, and prints every section."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.service.__main__ import BENCHMARK, main
from bench.service.sections import SECTIONS

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    written = tmp_path / "figures.json"
    finished = subprocess.run(
        [sys.executable, "-m", "bench.service", "--quick", "--json", str(written)],
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
    # Who is not answered, is refused, or stays is none of how busy the machine is.
    counted = [line for line in document["lines"] if line.get("target") == 0]
    assert len(counted) == 9
    assert [line["name"] for line in counted if line["ours"]] == []


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []


# The service is a process of its own: there is no loop to choose, and none but its own is named.
def test_the_loop_is_the_services_and_cannot_be_chosen(capsys):
    with pytest.raises(SystemExit):
        main(["--loops", "asyncio"])
    assert "--loops" in capsys.readouterr().err
    assert BENCHMARK.full.loops == BENCHMARK.quick.loops == ("uvloop",)

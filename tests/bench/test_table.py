"""Every benchmark of the table runs with small numbers, and prints and writes each of its sections."""

import json
import re
import subprocess
import sys

import pytest

from bench.measure.command import Benchmark
from bench.service.beside.nchan import find_nginx
from bench.table import BENCHMARKS
from tests.source_tree import ROOT

WITH_SECTIONS = {name: each for name, each in BENCHMARKS.items() if isinstance(each, Benchmark)}
JOURNALS = ("an observer that does nothing", "journal, always", "journal, group", "journal, os")


def sections_of(name):
    try:
        return WITH_SECTIONS[name].sections()
    except SystemExit:
        pytest.skip("what it needs is not installed")


def check_core(lines):
    assert {line["verdict"] for line in lines} <= {"met", "MISSED", "shown"}


def check_patterns(lines):
    assert {line["verdict"] for line in lines} <= {"met", "shown"}


def check_journal(lines):
    assert [line["name"] for line in lines if not line["ours"] > 0] == []
    costs = [line["name"] for line in lines if line["section"] == "cost"]
    assert [way for way in JOURNALS if f"the process: {way} / no observer" not in costs] == []


def check_kafka(lines):
    ours = [line for line in lines if line.get("broker") == "purgatory"]
    assert {line["client"] for line in ours} >= {"confluent", "kafka-python", "aiokafka"}
    assert {(line["passed"], len(line["failed"])) for line in ours} == {(1, 0)}
    assert {line["name"] for line in lines if "name" in line} >= {
        "process: purgatory",
        "in a test: purgatory",
        "produce: purgatory",
        "consume, long queue: purgatory",
        "one by one, p99: purgatory",
        "last answered: purgatory",
        "a member leaves: purgatory",
        "held produces, last answered",
    }


def check_scaling(lines):
    grown = [line for line in lines if line["section"] != "millions"]
    assert all(set(line["ns"]) >= {"purgatory_async", "purging_wheel", "call_later"} for line in grown)


def check_service(lines):
    # Unanswered, refused and unclosed clients do not depend on how busy the machine is.
    counted = [line for line in lines if line.get("target") == 0]
    assert len(counted) == (18 if find_nginx() else 12)  # six are of the section peers
    assert [line["name"] for line in counted if line["ours"]] == []


CHECKS = {
    "core": check_core,
    "patterns": check_patterns,
    "journal": check_journal,
    "kafka": check_kafka,
    "scaling": check_scaling,
    "service": check_service,
}
ALL = [pytest.param(name, marks=pytest.mark.spark if name == "pipeline" else ()) for name in WITH_SECTIONS]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_quick_prints_and_writes_every_section(name, tmp_path):
    # Under valgrind a service takes a minute to start: that section has tests of its own.
    sections = [each for each in sections_of(name) if (name, each) != ("service", "instructions")]
    options = [word for each in sections for word in ("--only", each)]
    if name == "scaling":
        options += ["--loops", "asyncio"]
    written = tmp_path / "figures.json"
    finished = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--quick", *options, "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.findall(r"^== ([\w-]+): ", finished.stdout, re.MULTILINE) == sections
    lines = json.loads(written.read_text(encoding="utf-8"))["lines"]
    assert {line["section"] for line in lines} == set(sections)
    CHECKS.get(name, len)(lines)


@pytest.mark.parametrize("name", WITH_SECTIONS)
def test_every_section_says_what_is_timed(name):
    sections = sections_of(name)
    assert len(sections) >= len(WITH_SECTIONS[name].modules)
    assert [each.name for each in sections.values() if len(each.timed) < 80] == []


@pytest.mark.parametrize("name", WITH_SECTIONS)
def test_a_quick_run_measures_less_and_says_how_much(name):
    full = WITH_SECTIONS[name].settings
    assert full.quick() != full
    assert full.numbers() != full.quick().numbers()
    assert all(full.conventions().values())


# The service and others are processes of their own: their benchmarks name the loop that runs there.
@pytest.mark.parametrize("name", [name for name, each in WITH_SECTIONS.items() if not each.chooses_loop])
def test_a_subject_with_its_own_loop_allows_no_choice(name, capsys):
    sections_of(name)
    with pytest.raises(SystemExit):
        WITH_SECTIONS[name].run(["--loops", "asyncio"])
    assert "--loops" in capsys.readouterr().err


def test_only_runs_the_section_asked_for_on_the_loop_asked_for(capsys):
    assert BENCHMARKS["core"].run(["--quick", "--repeats", "1", "--only", "wheel", "--loops", "asyncio"]) == 0
    printed = capsys.readouterr().out
    assert "\n== wheel: " in printed
    assert "\n== kafka: " not in printed
    assert "uvloop call_later" not in printed


def test_the_list_and_the_page_have_every_benchmark():
    listed = subprocess.run(
        [sys.executable, "-m", "bench"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.findall(r"^python -m bench\.(\w+) ", listed.stdout, re.MULTILINE) == list(BENCHMARKS)
    page = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == BENCHMARKS.keys()

"""``python -m bench.service`` runs, and prints every section."""

import pytest

from bench.service.__main__ import BENCHMARK, main
from bench.service.beside.nchan import find_nginx
from bench.service.sections import SECTIONS
from tests.bench.quick import run_quick


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    # Under valgrind a service takes a minute to start: its section has tests of its own.
    sections = [name for name in SECTIONS if name != "instructions"]
    only = [word for name in sections for word in ("--only", name)]
    _, lines = run_quick("bench.service", sections, tmp_path, *only, patience_s=600)
    # Unanswered, refused and unclosed clients do not depend on how busy the machine is.
    counted = [line for line in lines if line.get("target") == 0]
    assert len(counted) == (18 if find_nginx() else 12)  # six are of the section peers
    assert [line["name"] for line in counted if line["ours"]] == []


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []


# The service is a process of its own: the benchmark has no choice of loops, and names the service's.
def test_the_loop_is_the_services_and_cannot_be_chosen(capsys):
    with pytest.raises(SystemExit):
        main(["--loops", "asyncio"])
    assert "--loops" in capsys.readouterr().err
    assert BENCHMARK.full.loops == BENCHMARK.quick.loops == ("uvloop",)

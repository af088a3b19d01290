"""``python -m bench.cluster`` runs, and prints every section."""

import pytest

from bench.cluster.__main__ import main
from bench.cluster.sections import SECTIONS
from tests.bench.quick import run_quick


@pytest.mark.slow
def test_quick_exits_0_and_prints_and_writes_every_section(tmp_path):
    _, lines = run_quick("bench.cluster", SECTIONS, tmp_path)
    (chaos,) = [line for line in lines if line["section"] == "chaos"]
    assert (chaos["faults"], chaos["examples"], chaos["verdict"]) == (0, [], "met")


def test_every_section_says_what_is_timed():
    assert [section.name for section in SECTIONS.values() if len(section.timed) < 80] == []


def test_an_unknown_store_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["--store", "paper"])
    assert "must be one of sqlite, postgres, redis, got 'paper'" in capsys.readouterr().err

"""A section that lacks a program says what to install, and measures nothing."""

import pytest

from bench.measure.line import Verdict
from bench.service.sections import instructions, peers


@pytest.mark.parametrize(
    ("module", "lookup", "missing", "named"),
    [
        (peers, "find_nginx", None, "apt-get install nginx-light libnginx-mod-nchan"),
        (instructions, "has_valgrind", False, "valgrind is not installed"),
    ],
)
def test_a_missing_program_is_named_in_place_of_figures(monkeypatch, module, lookup, missing, named):
    monkeypatch.setattr(module, lookup, lambda: missing)
    (row,) = module.lines(settings=None)
    assert named in str(row)
    assert row.verdict is Verdict.SHOWN

"""wrk's output is parsed, and refused if some of its requests failed."""

import pytest

from bench.measure.line import Verdict
from bench.service.beside.wrk import EXCHANGES, Load, find_wrk
from bench.service.sections.beside_nchan import OURS, REFERENCE, lines, missing

PRINTED = """Running 2s test @ http://127.0.0.1:8765
Requests/sec:   6000.00

{"requests": 9000, "duration_us": 1500000, "p50_us": 1200, "p99_us": 4500, "refused": %d, "failed": %d}
"""


def test_the_last_line_that_wrk_printed_has_the_figures():
    assert Load.of(PRINTED % (0, 0)) == Load(requests_per_s=6000.0, p50_ms=1.2, p99_ms=4.5)


# Refusals are fast: a rate of them would look like a good one.
@pytest.mark.parametrize("wrong", [(1, 0), (0, 1)], ids=["refused", "failed"])
def test_a_run_in_which_something_went_wrong_is_no_measure(wrong):
    with pytest.raises(RuntimeError, match="of 9000 requests"):
        Load.of(PRINTED % wrong)


def test_a_run_without_a_request_is_no_measure():
    with pytest.raises(RuntimeError, match="of 0 requests"):
        Load.of((PRINTED % (0, 0)).replace("9000", "0"))


def test_every_compared_exchange_is_in_the_script():
    assert {*OURS, REFERENCE} == set(EXCHANGES)


@pytest.mark.parametrize(
    ("wrk", "nginx", "packages"),
    [
        (None, None, "wrk nginx-light libnginx-mod-nchan"),
        ("wrk", None, "nginx-light libnginx-mod-nchan"),
        (None, "nginx", "wrk"),
    ],
)
def test_a_missing_program_is_named_with_its_installation(wrk, nginx, packages):
    sentence = missing(wrk, nginx)
    assert sentence.endswith(f"apt-get install {packages}.")
    assert sentence.count(".") == 1


def test_where_everything_is_there_nothing_is_missing():
    assert missing("wrk", "nginx") is None


def test_a_section_that_lacks_something_measures_nothing(monkeypatch):
    monkeypatch.setattr("bench.service.sections.beside_nchan.find_wrk", lambda: None)
    (row,) = lines(settings=None)
    assert "wrk" in str(row)
    assert row.verdict is Verdict.SHOWN


def test_wrk_is_looked_for_on_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_wrk() is None

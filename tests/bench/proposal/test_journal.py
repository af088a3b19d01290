"""A journal of the load agrees with the requests' own counts, and becomes a report where Spark is installed."""

import asyncio

import pytest

pytest.importorskip("numpy", reason="the load needs the extra spark")

from bench.proposal import journal
from purgatory_async.journal import read_journal
from purgatory_async.journal.schema import Outcome, Submit
from tests.bench.proposal.made import point

SMALL = ("--rate", "20000", "--requests", "2000")


def test_the_records_are_those_of_the_requests(tmp_path):
    # The fault: the journal is closed before the last requests have ended, or the purgatory has no observer.
    tally = asyncio.run(journal.keep(point(rate=20_000, requests=2_000), tmp_path / "journal"))
    records = list(read_journal(tmp_path / "journal"))
    assert sum(isinstance(record, Submit) for record in records) == tally.submitted == 2_000
    ends = [record.outcome for record in records if isinstance(record, Outcome)]
    assert (len(ends), ends.count("expired")) == (tally.ended, len(tally.lateness_ns))
    assert 0.05 < ends.count("expired") / len(ends) < 0.11


def test_without_spark_it_prints_what_a_report_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(journal, "find_spec", lambda _: None)
    assert journal.main([str(tmp_path), *SMALL]) == 0
    low, sentence, high, _ = capsys.readouterr().out.splitlines()
    assert low.startswith("low, 20,000/s, 2,000 requests: ")
    assert high.startswith("high, ")
    assert all(
        word in low
        for word in (" completed, ", " expired; expired ", " ms late", "put into a bucket 1 times: ")
    )
    assert sentence == '  no report: run pip install "purgatory-async[spark]"'


def test_what_is_there_already_is_not_touched(tmp_path, capsys):
    (tmp_path / "low").mkdir()
    assert journal.main([str(tmp_path), *SMALL]) == 2
    assert "low exists; name a new directory" in capsys.readouterr().err
    assert list((tmp_path / "low").iterdir()) == []


def test_a_failing_report_is_reported_and_ends_the_run(tmp_path, monkeypatch):
    # The fault: a failed report counts as a report.
    monkeypatch.setattr(journal, "find_spec", lambda _: "somewhere")
    monkeypatch.setattr(journal.sys, "executable", "false")
    assert journal.main([str(tmp_path), *SMALL]) == 1
    assert not (tmp_path / "high").exists()


@pytest.mark.spark
def test_with_spark_each_case_has_its_page(tmp_path, capsys):
    pytest.importorskip("pyspark", reason="a report needs the extra spark")
    assert journal.main([str(tmp_path), *SMALL]) == 0
    printed = capsys.readouterr().out
    for case in ("low", "high"):
        page = tmp_path / case / "report" / "report.html"
        assert f"\n  {page}\n" in printed
        assert "expired" in page.read_text(encoding="utf-8")

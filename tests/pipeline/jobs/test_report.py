"""The report's figures, by hand: every field of the summary on journals that one can add up oneself."""

import re

import pyarrow.parquet as pq
import pytest

from purgatory_async.pipeline.jobs.report import run
from tests.pipeline.journals import MS, Node, append, lines, live, mixed, rotated

NOTHING = {"p50": None, "p95": None, "p99": None, "max": None}


@pytest.fixture
def report(spark, tmp_path):
    """Report on the journal in ``tmp_path / "journal"``; returns the summary and where the rest is."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "out").mkdir()
    return lambda: run(tmp_path / "journal", tmp_path / "out", spark)


def eventful():
    """99 operations that complete after 1 to 99 ms, one that expires late, and one of each other kind."""
    node = Node()
    for place in range(1, 100):
        node.submit(f"c{place}", 0, keys=("a",) if place % 2 else ("a", "b"))
    for name in ("expired", "cancelled", "failed", "closed", "pending"):
        node.submit(name, 0, keys=("<script>alert(1)</script>",))
    for place in range(1, 100):
        node.outcome(f"c{place}", place * MS, latency=place * MS)
    node.signal("only signalled", 150 * MS)
    node.outcome("expired", 201 * MS, outcome="expired", latency=201 * MS, lateness_ns=1 * MS)
    for name in ("cancelled", "failed", "closed"):
        node.outcome(name, 300 * MS, outcome=name, latency=300 * MS)
    node.stats(1000 * MS)
    return node


def test_every_field_of_the_summary_and_every_table_is_right(report, tmp_path):
    node = eventful()
    rotated(tmp_path / "journal", node.records[:60])
    live(tmp_path / "journal", node.records[60:], number=2)
    found = report()
    held_ms = sum(range(1, 100)) + 201 + 3 * 300 + 1000
    assert found == {
        "operations": 104,
        "outcomes": {"completed": 99, "expired": 1, "cancelled": 1, "failed": 1, "closed": 1, "pending": 1},
        "timeout_rate": 1 / 104,
        "latency_ns": {"p50": 50 * MS, "p95": 95 * MS, "p99": 99 * MS, "max": 99 * MS},
        "lateness_ns": {"p50": MS, "p95": MS, "p99": MS, "max": MS},
        "pending_mean": held_ms / 1000,
        "keys": 3,
        "anomalies": 0,
        "quarantined": 0,
        "missing": [],
    }
    out = tmp_path / "out"
    assert pq.read_table(out / "outcomes").num_rows == 104
    keys = {row["key"]: row for row in pq.read_table(out / "keys").to_pylist()}
    assert (keys["a"]["submitted"], keys["b"]["completed"], keys["only signalled"]["signals"]) == (99, 49, 1)
    timeline = pq.read_table(out / "timeline").to_pylist()
    assert sum(row["submitted"] for row in timeline) == 104
    assert timeline[-1]["pending"] == 1
    figures = {path.name for path in (out / "figures").iterdir()}
    assert figures == {
        f"{name}.{kind}"
        for name in ("pending", "rates", "latency", "lateness", "keys")
        for kind in ("svg", "png")
    }
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_each_prefix_has_its_own_counts_and_percentiles(report, tmp_path):
    live(tmp_path / "journal", mixed().records)
    report()
    table = pq.read_table(tmp_path / "out" / "prefixes").to_pylist()
    shown = ("prefix", "keys", "submitted", "completed", "expired", "pending", "signals")
    shown += tuple(f"latency_{name}_ns" for name in ("p50", "p95", "p99", "max"))
    assert [tuple(row[name] for name in shown) for row in table] == [
        ("api", 200, 200, 180, 20, 0, 0, *(place * 4 * MS for place in (99, 189, 198, 199))),
        ("human", 12, 12, 10, 2, 0, 0, *(place * 300_000 * MS for place in (5, 11, 11, 11))),
    ]
    page = (tmp_path / "out" / "report.html").read_text()
    row = page[page.index('<th scope="row">human') :]
    assert re.findall(r"<td>(.*?)</td>", row)[:6] == ["12", "12", "16.7 %", "25 min", "55 min", "55 min"]


def test_faults_of_a_journal_are_reported_and_counted_separately(report, tmp_path):
    node = Node()
    node.submit("one", 0, timeout=None)
    node.skip(2)  # lost: 2 and 3
    node.outcome("one", 10 * MS, latency=10 * MS)
    node.outcome("one", 20 * MS, outcome="expired", latency=20 * MS)  # a repeated end
    node.outcome("ghost", 30 * MS, latency=99 * MS)  # never submitted
    node.submit("two", 40 * MS)
    path = live(tmp_path / "journal", node.records)
    damaged = lines([node.signal("a", 50 * MS)]).replace(b'"n":1', b'"n":2')  # its checksum is another's
    torn = lines([node.outcome("two", 60 * MS)])[:-1]
    begin = path.stat().st_size
    append(path, damaged + torn)
    found = report()
    assert found["operations"] == 2
    assert found["outcomes"] == dict.fromkeys(found["outcomes"], 0) | {"completed": 1, "pending": 1}
    assert found["latency_ns"] == dict.fromkeys(("p50", "p95", "p99", "max"), 10 * MS)
    assert found["lateness_ns"] == NOTHING
    assert found["anomalies"] == 2
    assert found["quarantined"] == 1
    assert found["missing"] == [
        {"run_id": "run", "node": "n1", "first": 2, "last": 3},
        {"run_id": "run", "node": "n1", "first": 8, "last": 8},
    ]
    assert found["pending_mean"] == 10 / 40
    quarantine = pq.read_table(tmp_path / "out" / "quarantine").to_pylist()
    assert [(row["file"], row["offset"]) for row in quarantine] == [(path.name, begin)]
    assert "checksum" in quarantine[0]["reason"]
    strange = pq.read_table(tmp_path / "out" / "anomalies").to_pylist()
    assert sorted(row["op_id"] for row in strange) == ["ghost", "one"]


def test_an_empty_journal_has_a_report_too(report, tmp_path):
    found = report()
    assert found == {
        "operations": 0,
        "outcomes": dict.fromkeys(("completed", "expired", "cancelled", "failed", "closed", "pending"), 0),
        "timeout_rate": None,
        "latency_ns": NOTHING,
        "lateness_ns": NOTHING,
        "pending_mean": None,
        "keys": 0,
        "anomalies": 0,
        "quarantined": 0,
        "missing": [],
    }
    assert "This journal has no operations." in (tmp_path / "out" / "report.html").read_text()

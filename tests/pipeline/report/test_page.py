"""The page: whole without a network, and whatever a journal holds is only text in it."""

import pytest

from purgatory_async.pipeline.report.charts import draw
from purgatory_async.pipeline.report.findings import OUTCOMES, Findings, Step, Stretch, filled
from purgatory_async.pipeline.report.page import write_page
from tests.pipeline.pages import active_parts, check_figures, outside_links

HOSTILE = [
    "</title><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "$x^2$",
    "a\"b'c&amp;",
    "line\n\x00",
    "x" * 500,
]


def findings(**changes):
    latency = {"p50": 20_000_000, "p95": 90_000_000, "p99": 120_000_000, "max": 150_000_000}
    keys = [{"key": key, "submitted": 6, **dict.fromkeys(OUTCOMES, 1), "signals": 2} for key in HOSTILE]
    damage = [{"file": HOSTILE[0], "offset": 10, "reason": HOSTILE[1]}]
    anomaly = {
        "run_id": "r",
        "node": HOSTILE[0],
        "seq": 7,
        "op_id": HOSTILE[1],
        "kind": "outcome",
        "outcome": "completed",
    }
    node = {
        "run_id": "r",
        "node": HOSTILE[0],
        "first_wall_ns": 10**18,
        "last_wall_ns": 10**18 + 10**9,
        "records": 9,
    }
    node |= {"first_ns": 0, "last_ns": 10**9, "submits": 6, "signals": 2, "tick_ns": 10**6, "wheel_size": 256}
    usual = {
        "summary": {
            "operations": 6,
            "outcomes": dict.fromkeys(OUTCOMES, 1),
            "timeout_rate": 1 / 6,
            "latency_ns": latency,
            "lateness_ns": latency,
            "pending_mean": 0.5,
            "keys": len(keys),
            "anomalies": 1,
            "quarantined": 1,
            "missing": [{"run_id": "r", "node": HOSTILE[0], "first": 3, "last": 4}],
        },
        "nodes": [node],
        "began_ns": 10**18,
        "ended_ns": 10**18 + 10**9,
        "arrivals_per_s": 6.0,
        "held_mean_s": 0.08,
        "curve_mean": 0.5,
        "width_ns": 10**8,
        "stretches": [
            Stretch(10**18 + place * 10**8, 1, dict.fromkeys(OUTCOMES[:-1], 1), 3) for place in range(10)
        ],
        "latency": [Step(10.0**place, 10.0 ** (place + 1), 5) for place in range(3, 8)],
        "lateness": [Step(10.0**place, 10.0 ** (place + 1), 5) for place in range(3, 8)],
        "keys": keys,
        "anomalies": [anomaly | {"reason": "ended before"}],
        "quarantine": damage,
    }
    return Findings(**(usual | changes))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The page of a hostile journal, and its figures."""
    directory = tmp_path_factory.mktemp("report")
    figures = draw(findings(), directory / "figures")
    write_page(findings(), figures, directory / "report.html")
    return (directory / "report.html").read_text(encoding="utf-8"), figures, directory / "figures"


def test_journal_contents_become_no_element_or_attribute(made):
    page, _, _ = made
    assert active_parts(page) == []
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "line\\n\\x00" in page


def test_the_page_asks_no_network_for_anything(made):
    page, _, _ = made
    assert outside_links(page) == []


def test_every_figure_is_drawn_in_the_colours_of_the_page(made):
    page, figures, files = made
    assert list(figures) == ["pending", "rates", "latency", "lateness", "keys"]
    check_figures(page, figures, files)


def test_a_key_with_dollars_is_text_and_no_formula(made):
    _, figures, _ = made
    assert ">$x^2$</text>" in figures["keys"]


def test_an_empty_journal_has_a_page_without_figures(tmp_path):
    nothing = dict.fromkeys(("p50", "p95", "p99", "max"))
    summary = findings().summary | {
        "operations": 0,
        "outcomes": dict.fromkeys(OUTCOMES, 0),
        "missing": [],
        "pending_mean": None,
    }
    summary |= {
        "latency_ns": nothing,
        "lateness_ns": nothing,
        "keys": 0,
        "anomalies": 0,
        "quarantined": 0,
        "timeout_rate": None,
    }
    none = dict.fromkeys(("nodes", "stretches", "latency", "lateness", "keys", "anomalies", "quarantine"), ())
    unknown = dict.fromkeys(("began_ns", "ended_ns", "arrivals_per_s", "held_mean_s", "curve_mean"))
    empty = findings(summary=summary, **none, **unknown)
    assert draw(empty, tmp_path / "figures") == {}
    write_page(empty, {}, tmp_path / "report.html")
    assert "This journal has no operations." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_is_wrong_is_said_at_the_top_and_in_full_below(made):
    page, _, _ = made
    assert page.index('href="#health"') < page.index('id="health"')
    assert "2 records of the journal are missing" in page
    assert "1 line could not be read as records" in page
    assert "1 record belongs to no operation" in page


def test_intervals_without_records_keep_the_pending_count():
    rows = [{"start_ns": 0, "submitted": 3, "completed": 1}, {"start_ns": 30, "submitted": 0, "expired": 2}]
    assert [stretch.pending for stretch in filled(rows, 10)] == [2, 2, 2, 0]

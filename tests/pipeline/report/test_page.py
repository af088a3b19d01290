"""The page: whole without a network, and whatever a journal holds is only text in it."""

import re

import pytest
from matplotlib.figure import Figure

from purgatory_async.pipeline.report import page as report_page
from purgatory_async.pipeline.report.findings import Findings, Step, Stretch, filled
from purgatory_async.pipeline.report.page import draw, write_page
from purgatory_async.pipeline.report.sums import OUTCOMES
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


@pytest.fixture
def painted(monkeypatch, tmp_path):
    """The axes of each figure, painted but not written."""

    def paint(of):
        axes = {}
        with monkeypatch.context() as patched:
            patched.setattr(report_page.drawing, "draw", lambda charts, _: charts)
            for name, (paint, _) in draw(of, tmp_path).items():
                axes[name] = Figure().add_subplot()
                paint(axes[name])
        return axes

    return paint


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


def test_prefixes_have_a_table_where_keys_have_any(made, tmp_path):
    page, _, _ = made
    assert "Prefixes of keys" not in page
    row = {"keys": 3, "submitted": 6, **dict.fromkeys(OUTCOMES, 1), "signals": 2}
    row |= {"latency_p50_ns": 2_000_000, "latency_p95_ns": None, "latency_p99_ns": None}
    some = findings(prefixes=[row | {"prefix": "<orders>"}, row | {"prefix": None}])
    write_page(some, {}, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    table = page[page.index("Prefixes of keys") : page.index("The journal itself")]
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == ["&lt;orders&gt;", "keys without one"]
    assert re.findall(r"<td>(.*?)</td>", table)[:6] == ["3", "6", "16.7 %", "2 ms", "none", "none"]
    assert "how long they would have taken is not known" in table


def test_what_is_wrong_is_said_at_the_top_and_in_full_below(made):
    page, _, _ = made
    assert page.index('href="#health"') < page.index('id="health"')
    assert "2 records of the journal are missing" in page
    assert "1 line could not be read as records" in page
    assert "1 record belongs to no operation" in page


def spiked(place, height, count=200):
    """Stretches of 4 to 9 operations, but for one."""
    rates = [4 + index % 6 for index in range(count)]
    rates[place] = height
    return [
        Stretch(index, rate, dict.fromkeys(OUTCOMES[:-1], 0) | {"completed": rate}, rate)
        for index, rate in enumerate(rates)
    ]


@pytest.mark.parametrize("place", [0, 100, -1], ids=["start", "middle", "end"])
@pytest.mark.parametrize(("name", "unit"), [("pending", 1), ("rates", 10)])
def test_a_spike_is_cut_and_its_value_shown(painted, place, name, unit):
    axes = painted(findings(stretches=spiked(place, 1234)))[name]
    low, high = axes.get_ylim()
    assert (low, 9 * unit < high < 15 * unit) == (0, True)
    (label,) = axes.texts
    assert label.get_text() == f"peak {1234 * unit:,} ↑"


@pytest.mark.parametrize(("height", "count"), [(17, 200), (1234, 10)], ids=["not high", "of few"])
def test_a_peak_that_flattens_little_is_not_cut(painted, height, count):
    drawn = painted(findings(stretches=spiked(5, height, count)))
    for name in ("pending", "rates"):
        assert list(drawn[name].texts) == []
        assert drawn[name].get_ylim()[1] >= height


def test_the_mean_stays_below_the_end_of_a_cut_axis(painted):
    summary = findings().summary | {"pending_mean": 50.0}
    axes = painted(findings(stretches=spiked(-1, 9000), summary=summary))["pending"]
    assert 50 < axes.get_ylim()[1] < 100


def test_peaks_apart_are_shown_each_and_close_ones_as_one(painted):
    stretches = spiked(10, 500, 400)
    for place, height in ((12, 700), (300, 600)):
        stretches[place] = spiked(place, height, 400)[place]
    axes = painted(findings(stretches=stretches))["pending"]
    assert [label.get_text() for label in axes.texts] == ["peak 700 ↑", "peak 600 ↑"]


def test_intervals_without_records_keep_the_pending_count():
    rows = [{"start_ns": 0, "submitted": 3, "completed": 1}, {"start_ns": 30, "submitted": 0, "expired": 2}]
    assert [stretch.pending for stretch in filled(rows, 10)] == [2, 2, 2, 0]

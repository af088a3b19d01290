"""The page of a what-if: a curve where values differ, every setting in the table, and nothing from elsewhere."""

import re
from itertools import product

import pytest
from matplotlib.figure import Figure

from purgatory_async.pipeline.whatif import page as whatif_page
from purgatory_async.pipeline.whatif.page import draw, recommend, write_page
from tests.pipeline.pages import active_parts, check_figures, outside_links

ALL = ["expired", "pending", "lateness", "inserts"]


def line(timeout, tick, wheel_size):
    return {
        "timeout": timeout,
        "tick": tick,
        "wheel_size": wheel_size,
        "completed": round(1000 * timeout),
        "expired": 1000 - round(1000 * timeout),
        "pending": 0,
        "timeout_rate": 1 - timeout,
        "pending_mean": 100 * timeout + tick,
        "lateness_mean_ns": tick * 5e8 if timeout < 1 else None,
        "inserts_per_operation": 1 + timeout / wheel_size,
        "decided_by_lateness": 0,
        "guessed": 0,
    }


def tried(timeouts=(0.1,), ticks=(0.001,), wheel_sizes=(256,)):
    lines = [line(*setting) for setting in product(timeouts, ticks, wheel_sizes)]
    return lines, recommend(lines)


def painted(monkeypatch, lines, recommended, directory):
    """The curves of each figure by label: without one as ``only``, the recommended point as ``point``."""
    with monkeypatch.context() as patched:
        patched.setattr(whatif_page.drawing, "draw", lambda charts, _: charts)
        drawn = draw(lines, recommended, directory)
    found = {}
    for name, (paint, _) in drawn.items():
        axes = Figure().add_subplot()
        paint(axes)
        found[name] = {
            str(curve.get_label()): list(zip(*curve.get_data(), strict=True)) for curve in axes.get_lines()
        }
    return found


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"timeouts": (0.1, 0.5)}, ["expired", "pending"]),
        ({"ticks": (0.001, 0.01)}, ["lateness"]),
        ({"wheel_sizes": (20, 256)}, ["inserts"]),
        ({"timeouts": (0.1, 0.5), "ticks": (0.001, 0.01), "wheel_sizes": (20, 256)}, ALL),
        ({}, []),
    ],
    ids=["timeouts", "ticks", "wheels", "all", "one setting"],
)
def test_a_figure_is_drawn_where_several_values_were_tried(tmp_path, settings, names):
    assert list(draw(*tried(**settings), tmp_path / "figures")) == names
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == set(names)


def test_each_combination_of_the_others_has_a_curve(tmp_path, monkeypatch):
    lines, recommended = tried((0.5, 0.1, 1.0), (0.001, 0.01), (20, 256))
    found = painted(monkeypatch, lines, recommended, tmp_path)
    assert recommended["tick"] == 0.01
    # The size of the wheel makes no difference to these.
    assert found["pending"] == {
        "tick 1 ms": [(0.1, 10.001), (0.5, 50.001), (1.0, 100.001)],
        "tick 10 ms": [(0.1, 10.01), (0.5, 50.01), (1.0, 100.01)],
        "recommended: 100": [(1.0, 100.01)],
    }
    # With the longest timeout nothing expires, and nothing is late.
    assert found["lateness"] == {f"timeout {name} ms": [(0.001, 5e5), (0.01, 5e6)] for name in ("100", "500")}


def test_of_many_curves_only_the_recommended_is_drawn(tmp_path, monkeypatch):
    lines, recommended = tried((0.1, 0.5, 0.99), (0.001, 0.004), (20, 256))
    found = painted(monkeypatch, lines, recommended, tmp_path)
    assert list(found["inserts"]) == [
        "timeout 990 ms, tick 4 ms; 5 more in the table",
        "recommended: 1.0039",
    ]


def test_without_the_recommended_curve_the_next_one_is_drawn(tmp_path, monkeypatch):
    # With the recommended timeout nothing expires, and nothing is late.
    lines, recommended = tried((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0), (0.001, 0.01))
    found = painted(monkeypatch, lines, recommended, tmp_path)
    assert found["lateness"] == {"timeout 600 ms; 5 more in the table": [(0.001, 5e5), (0.01, 5e6)]}


def test_labels_of_close_values_leave_each_other_room(tmp_path, monkeypatch):
    lines, recommended = tried(tuple(place / 100 for place in range(1, 100)))
    drawn = draw(lines, recommended, tmp_path / "figures")
    labels = re.findall(r">(\d+ ms)</text>", drawn["expired"])
    assert {"10 ms", "990 ms"} <= set(labels)
    assert len(labels) <= 9


@pytest.fixture
def written(tmp_path):
    """Write the page of settings; returns it and its figures."""

    def write(lines, recommended, prefixes=()):
        figures = draw(lines, recommended, tmp_path / "figures")
        write_page(lines, recommended, figures, tmp_path / "whatif.html", prefixes)
        return (tmp_path / "whatif.html").read_text(encoding="utf-8"), figures

    return write


def test_the_page_is_whole_without_a_network_or_script(written, tmp_path):
    lines, recommended = tried((0.1, 0.5), (0.001, 0.01), (20, 256))
    page, figures = written(lines, recommended | {"why": "<img src=x onerror=alert(1)>"})
    assert list(figures) == ALL
    check_figures(page, figures, tmp_path / "figures")
    assert outside_links(page) == []
    assert active_parts(page) == []
    assert "<p>&lt;img src=x onerror=alert(1)&gt;</p>" in page


def test_the_page_lists_every_setting_and_marks_one(written):
    lines, recommended = tried((0.1, 0.1234567, 0.5), (0.001,), (20, 256))
    page, _ = written(lines, recommended)
    assert "<h1>Take a timeout of 0.5 s, a tick of 0.001 s and 256 buckets a level.</h1>" in page
    assert f"<p>{recommended['why']}</p>" in page
    heads = re.findall(r'<th scope="row">([\d.]+ s)( <b title="recommended">)?', page)
    assert [(name, bool(mark)) for name, mark in heads] == [
        *[("0.1 s", False)] * 2,
        *[("0.1234567 s", False)] * 2,
        ("0.5 s", False),
        ("0.5 s", True),
    ]


def test_prefixes_have_a_table_with_a_timeout_for_each(written):
    row = {"operations": 9, "recorded_timeout": None, "timeout": None, "completed": None, "expired": None}
    rows = [
        row | {"prefix": "<api>", "recorded_timeout": 0.5, "timeout": 0.1, "guessed": 3},
        row | {"prefix": None, "guessed": None},
    ]
    page, _ = written(*tried((0.1, 0.5)), rows)
    table = page[page.index("A timeout for each prefix") : page.index("The settings")]
    assert "how long it would have taken is not known" in table
    assert re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", table)[7:] == [
        *("&lt;api&gt;", "9", "0.5 s", "0.1 s", "none", "none", "3"),
        *("keys without one", "9", *["none"] * 5),
    ]


def test_without_operations_the_page_has_no_figures(written):
    none = dict.fromkeys(
        ("timeout_rate", "pending_mean", "lateness_mean_ns", "inserts_per_operation"), None
    ) | dict.fromkeys(("completed", "expired"), 0)
    lines = [line(timeout, 0.001, 256) | none for timeout in (0.1, 0.5)]
    page, figures = written(lines, recommend(lines))
    assert figures == {}
    assert "This journal has no operations." in page
    assert "Take a timeout" not in page

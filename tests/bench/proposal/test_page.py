"""The page is complete, names its source, and can be made again from the readings alone."""

import re

import pytest

pytest.importorskip("matplotlib", reason="figures need the extra spark")
pytest.importorskip("pyarrow", reason="readings need the extra spark")

from bench.proposal import page, plots
from bench.proposal.files import save
from bench.proposal.lost import losses
from bench.proposal.point import FLOOD, HARNESS
from tests.bench.proposal.made import measured, point, reading

FEW = plots.MEASURES[:2]


def readings():
    rates = (10_000, 20_000, FLOOD)
    return {
        point(name, rate=rate, case=case): [reading(cpu_s_per_million=cpu), reading(cpu_s_per_million=cpu)]
        for rate in rates
        for case in ("low", "high")
        for name, cpu in ((HARNESS, 1.0), ("purgatory_async", 5.0), ("call_later", 4.0), ("wait", 6.0))
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory with readings and their page; the measures stay few for all tests of it."""
    directory = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "MEASURES", FEW)
        save(directory, measured(readings(), failed=["anyio fell asleep"]))
        assert page.main([str(directory)]) == 0
        yield directory


def test_every_measure_of_both_kinds_is_there_as_svg(made):
    assert {path.name for path in (made / "figures").iterdir()} == {
        f"{kind}-{measure.name}.svg" for kind in plots.KINDS for measure in FEW
    }
    drawing = (made / "figures" / "callback-cpu.svg").read_text(encoding="utf-8")
    for text in ("purgatory_async", "call_later", "harness", "flood", "20 k", "low latency", "high latency"):
        assert f">{text}" in drawing
    assert ">wait<" not in drawing


def test_each_setting_of_the_collector_has_figures_of_its_own(tmp_path, monkeypatch):
    # The fault: only the points of the default collector are drawn, and the page does not mention the others.
    monkeypatch.setattr(plots, "MEASURES", FEW[1:])
    taken = {
        point("purgatory_async", collector=collector, rate=rate): [reading()]
        for collector, rate in (("default", 10_000), ("recipe", 20_000))
    }
    default, recipe = plots.draw(taken, tmp_path)
    assert (default.path.name, recipe.path.name) == (
        "callback-cpu.svg",
        "callback-cpu-recipe.svg",
    )
    assert recipe.title == f"{default.title}, collector by the recipe"
    drawings = [each.path.read_text(encoding="utf-8") for each in (default, recipe)]
    assert [(">10 k<" in drawing, ">20 k<" in drawing) for drawing in drawings] == [
        (True, False),
        (False, True),
    ]


def test_the_page_needs_nothing_else(made):
    text = (made / "page.html").read_text(encoding="utf-8")
    assert text.count('<img alt="') == 4
    assert set(re.findall(r'(?:src|href)="([^",]*)', text)) == {"data:image/svg+xml;base64"}
    assert "<script" not in text


def test_the_page_shows_machine_date_command_and_limits(made):
    text = (made / "page.html").read_text(encoding="utf-8")
    # The fault: the machine's name is read as markup.
    assert "a &lt;processor&gt;, 2 cores" in text
    for fact in ("2026-01-02", "<code>python -m bench.proposal --quick</code>", "anyio fell asleep"):
        assert fact in text
    assert "What this does not show" in text


def test_the_headline_counts_each_kind_for_itself():
    taken = {
        point(name, rate=rate): [reading(cpu_s_per_million=cpu)]
        for rate in (10, 20)
        for name, cpu in (
            ("purgatory_async", 5.0),
            ("hashed", 6.0),
            ("wait", 7.0),
            ("anyio", 6.0 + 2 * (rate > 10)),
        )
    }
    found = list(losses(taken))
    assert page._headline(taken, found) == (
        "No contestant used less processor time than the library at 2 of 2 points "
        "where requests are answered by a callback, and at 1 of 2 points where requests are awaited."
    )
    assert page._headline({}, []) == "Nothing was compared."


def test_the_same_readings_make_the_same_page(made):
    first = (made / "page.html").read_bytes()
    page.main([str(made)])
    assert (made / "page.html").read_bytes() == first

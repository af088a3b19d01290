"""The parts of the site that are made from the code: no problem, setting or page is left out, and no link is lost."""

import dataclasses
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest

from tests.source_tree import ROOT
from tests.test_public_api import SUBMODULES

NAMES = (
    "pages",
    "sources",
    "navigation",
    "checks",
    "reference.api",
    "reference.problems",
    "reference.settings",
    "reference.formats",
)


@pytest.fixture(scope="module")
def site():
    """The modules that make the site, by their last names; they leave no trace in other tests."""
    before = {
        name for name in sys.modules if name.partition(".")[0] in {each.partition(".")[0] for each in NAMES}
    }
    assert not before
    sys.path.insert(0, str(ROOT / ".github/site"))
    try:
        yield SimpleNamespace(**{name.rpartition(".")[2]: import_module(name) for name in NAMES})
    finally:
        sys.path.remove(str(ROOT / ".github/site"))
        for name in [name for name in sys.modules if name.partition(".")[0] in {"reference", *NAMES}]:
            del sys.modules[name]


@pytest.fixture
def links(site):
    """Rewrites the links of a small repository: two pages, and a program that one of them shows."""
    pages = [
        site.pages.Page("a/README.md", "guides/a", "", "# A\n"),
        site.pages.Page("b/B.md", "b", "", "# B\n"),
    ]
    return site.pages.Links(pages, {"a/run.py": "source/a/run.py", "a/x.png": "/files/a/x.png"}.get)


def test_every_public_module_has_a_page(site):
    assert {f"purgatory_async.{name}" for name in SUBMODULES} <= set(site.api.MODULES)


def test_every_problem_has_a_section_and_advice(site):
    kinds = site.problems.kinds()
    assert len(kinds) > 30
    assert {kind.slug for kind in kinds} == set(site.problems.ADVICE)
    page = site.problems.markdown()
    for kind in kinds:
        assert f"\n## `{kind.slug}`\n\n**{kind.status}** {kind.title}.\n\n*What to do:* " in page


def test_a_problem_shows_what_its_detail_says(site):
    assert "`the operation … is pending: cannot forget it; cancel it first`" in site.problems.markdown()


def test_every_setting_has_its_flag_variable_and_bounds(site):
    settings = import_module("purgatory_async.service.settings.settings")
    page = site.settings.markdown()
    for known in dataclasses.fields(settings.Settings):
        assert f"\n## `--{known.name.replace('_', '-')}`\n" in page
        assert f"\n- Variable: `PURGATORY_{known.name.upper()}`\n" in page
    assert "\n- Value: from 0 to 3155760000 seconds, or text like 55s" in page
    assert ", and above 0 seconds\n" in page
    assert "\n- Value: an integer from 1 to 64\n" in page


def test_every_kind_of_entry_and_record_has_a_section(site):
    log, journal = site.formats.log(), site.formats.journal()
    assert "\n## `submit`\n" in log
    assert "| **`keys`** | list of string, at least 1 items | Its distinct watch keys, at least one. |" in log
    assert "\n## `outcome`\n" in journal


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the files are those that git knows")
def test_every_markdown_file_has_a_place_of_its_own(site):
    files = [path for path in site.pages.tracked() if path.endswith(".md")]
    pages = site.pages.find_pages(files)
    assert len({page.name for page in pages}) == len(pages) > 15
    assert all(page.title and page.summary for page in pages)


def test_a_link_leads_to_the_place_of_its_page(links):
    text = "[b](../b/B.md#x) [folder](../b/../a) [web](https://example.org/a.md) [here](#x)"
    assert links.rewrite(text, "a/README.md", "guides/a") == (
        "[b](../b.md#x) [folder](a.md) [web](https://example.org/a.md) [here](#x)"
    )


def test_a_link_to_a_file_leads_to_a_page_that_shows_it(links):
    text = "[run](../a/run.py#L3) ![x](../a/x.png)"
    assert links.rewrite(text, "b/B.md", "b") == "[run](source/a/run.py.md) ![x](/files/a/x.png)"


def test_a_link_into_a_generated_page_keeps_its_anchor(links):
    text = "[full](../purgatory_async/durable/documents/problems.py#overloaded)"
    assert links.rewrite(text, "a/README.md", "guides/a") == "[full](../reference/problems.md#overloaded)"


def test_code_keeps_what_looks_like_a_link(links):
    text = "```\n[b](../b/B.md)\n```\n"
    assert links.rewrite(text, "a/README.md", "guides/a") == text


def test_a_link_that_leads_nowhere_is_reported(links):
    links.rewrite("[no](none.md)", "a/README.md", "guides/a")
    assert links.broken == ["a/README.md: none.md"]


def test_broken_links_and_lost_pages_are_named(site, tmp_path):
    (tmp_path / "index.html").write_text(
        '<p id="here"><a href="#here"></a><a href="a.html#no"></a><a href="b.html"></a><a href="http:x"></a>'
    )
    (tmp_path / "a.html").write_text('<img src="../out.png">')
    (tmp_path / "lost.html").write_text("")
    assert site.checks.faults(tmp_path) == [
        "a.html: broken link ../out.png",
        "index.html: no such anchor a.html#no",
        "index.html: broken link b.html",
        "lost.html: no page leads here",
    ]

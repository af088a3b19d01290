"""The built site in a browser: its search, its width on a phone, what axe finds, and what it has for machines."""

import functools
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ui.conftest import browser, visit  # noqa: F401 - fixtures

pytestmark = pytest.mark.slow

# One page of each kind: of the repository, generated, of a source file, made by Sphinx.
OF_EACH_KIND = (
    *("index", "overview", "guides/patterns", "tutorials/ask_a_person"),
    *("reference/problems", "reference/settings", "reference/api/web"),
    *("source/index", "source/purgatory_async/loop/portal.py", "search", "404"),
)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def pages():
    """The folder of the built site, which SITE names; `.ci/check served` builds one."""
    if "SITE" not in os.environ:
        pytest.skip("SITE names no folder into which .ci/check site has built the site")
    return Path(os.environ["SITE"])


@pytest.fixture(scope="module")
def address(pages):
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=pages))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_axe_finds_nothing(address, visit, name, scheme):  # noqa: F811
    page = visit(f"{address}/{name}.html", whole=True, color_scheme=scheme).page
    assert [
        (fault["id"], fault["nodes"][0]["html"]) for fault in Axe().run(page).response["violations"]
    ] == []


def test_no_page_scrolls_sideways_on_a_phone(pages, address, visit):  # noqa: F811
    page = visit(address, whole=True, viewport={"width": 320, "height": 640}).page
    names = [path.relative_to(pages) for path in sorted(pages.rglob("*.html"))]
    widths = {}
    for name in [name for name in names if name.parts[0] not in {"_static", "_downloads", "source"}]:
        page.goto(f"{address}/{name}")
        widths[str(name)] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in widths.items() if width > 320} == {}
    assert len(widths) > 30


def test_the_search_finds_a_problem_by_its_slug(address, visit):  # noqa: F811
    visited = visit(address, whole=True)
    page = visited.page
    page.get_by_role("textbox", name="Search").fill("idempotency-mismatch")
    page.keyboard.press("Enter")
    expect(page.locator("#search-results")).to_contain_text("Problems")
    page.locator("#search-results a", has_text="idempotency-mismatch").first.click()
    expect(page).to_have_url(f"{address}/reference/problems.html#idempotency-mismatch")
    assert visited.errors == []


def test_a_dark_system_gets_dark_pages(address, visit):  # noqa: F811
    darkness = {}
    for scheme in ("light", "dark"):
        page = visit(address, whole=True, color_scheme=scheme).page
        darkness[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert darkness == {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 20, 22)"}


def test_llms_txt_leads_to_the_text_of_every_page(pages):
    index = (pages / "llms.txt").read_text(encoding="utf-8")
    named = [
        line.partition("](")[2].partition(")")[0] for line in index.splitlines() if line.startswith("- [")
    ]
    assert {"overview.md", "guides/durable.md", "reference/problems.md"} <= set(named)
    assert all((pages / name).is_file() for name in named)
    full = (pages / "llms-full.txt").read_text(encoding="utf-8")
    assert all((pages / name).read_text(encoding="utf-8").strip() in full for name in named)


def test_a_missing_page_has_links_from_the_root(pages):
    assert '<base href="/">' in (pages / "404.html").read_text(encoding="utf-8")

"""What axe finds on the dashboard, what widths it fits, and how much of the page depends on what is pending."""

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ui.conftest import FEW

pytestmark = pytest.mark.slow

WIDTHS = (400, 639, 641, 993, 1377, 1761, 2560)  # the ends, and where the layout changes


def faults(page):
    """What axe finds: the rule, and the first element that breaks it."""
    found = Axe().run(page).response["violations"]
    return [(fault["id"], fault["nodes"][0]["html"]) for fault in found]


def widths(page):
    """How wide the page is at each width of its window."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        found.append(page.evaluate("document.documentElement.scrollWidth"))
    return tuple(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(service, client, visit, scheme):
    for number in range(FEW):
        client.submit([f"orders/{number}", "all"], timeout=60 + 500 * number, operation_id=f"op-{number}")
    client.put("jobs", {"n": 1})
    page = visit(service.address, color_scheme=scheme, viewport={"width": 1400, "height": 900}).page
    expect(page.locator("#operations tr")).to_have_count(FEW)
    assert faults(page) == []
    page.set_viewport_size({"width": 400, "height": 900})
    assert faults(page) == []
    page.get_by_role("link", name="op-3").click()
    expect(page.get_by_role("region", name="Operation op-3")).to_contain_text("Waiting for")
    assert faults(page) == []
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert faults(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert faults(page) == []


def test_axe_finds_nothing_at_the_sign_in(serve, tmp_path, visit):
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text("right-0123456789abcdef read\n")
    page = visit(serve("--tokens", str(path)).address).page
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    assert faults(page) == []
    assert widths(page) == WIDTHS


def test_no_width_needs_scrolling_sideways(service, client, visit):
    for number in range(FEW):
        client.submit(
            [f"{number}{'x' * 500}", "b" * 500], timeout=10**8, operation_id=f"{number}-{'o' * 120}"
        )
    page = visit(service.address).page
    expect(page.locator("#operations tr")).to_have_count(FEW)
    assert widths(page) == WIDTHS
    page.get_by_role("link").first.click()
    expect(page.get_by_role("button", name="Back to the list")).to_be_visible()
    assert widths(page) == WIDTHS

"""Complete and Cancel ask first, and can be undone for five seconds. The page's clock is the test's own."""

import datetime as dt
from contextlib import closing

import pytest

from purgatory_async.client import Client

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

VERBS = [("Complete", "completed"), ("Cancel", "cancelled")]


@pytest.fixture
def page(service, client, visit):
    """A dashboard with two operations, whose time passes when the test lets it."""
    for name in ("one", "two"):
        client.submit(["a"], operation_id=name)
    page = visit(service.address, clock=True).page
    expect(page.get_by_role("row", name="two")).to_be_visible()
    stop(page)
    return page


def stop(page):
    """Let time pass only when the test says so."""
    page.clock.pause_at(dt.datetime.fromtimestamp(page.evaluate("Date.now()") / 1000 + 60, dt.UTC))


def button(page, name, row="one"):
    return page.get_by_role("row", name=row).get_by_role("button", name=name, exact=True)


def confirm(page, name, row="one"):
    button(page, name, row).click()
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


def sent(page):
    """Note what changes something on the service."""
    requests = []
    page.on("request", lambda request: requests.append(request.method) if request.method != "GET" else None)
    return requests


@pytest.mark.parametrize(("name", "state"), VERBS)
def test_a_confirmed_end_is_sent_after_five_seconds(service, client, page, name, state):
    requests = sent(page)
    confirm(page, name)
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("status").filter(has_text=f"{name} one")).to_be_visible()
    page.clock.run_for(4900)
    assert (requests, client.status("one").state) == ([], "pending")
    page.clock.run_for(100)
    service.until_state("one", state)
    assert client.status("two").state == "pending"
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)


@pytest.mark.parametrize(("name", "_"), VERBS)
def test_an_undo_sends_nothing(client, page, name, _):
    requests = sent(page)
    confirm(page, name)
    page.get_by_role("button", name="Undo").click()
    page.clock.run_for(10_000)
    assert (requests, client.status("one").state) == ([], "pending")
    confirm(page, name)  # and it can be asked for again
    expect(page.get_by_role("button", name="Undo")).to_be_visible()


@pytest.mark.parametrize("way", ["Keep it", "Escape"])
def test_a_dialog_that_is_closed_ends_nothing(client, page, way):
    button(page, "Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel this operation?")
    expect(dialog).to_contain_text("one")
    if way == "Escape":
        page.keyboard.press(way)
    else:
        dialog.get_by_role("button", name=way).click()
    expect(dialog).to_be_hidden()
    expect(button(page, "Cancel")).to_be_focused()
    page.clock.run_for(10_000)
    assert client.status("one").state == "pending"


def test_two_ends_can_be_undone_one_by_one(service, client, page):
    confirm(page, "Cancel", "one")
    confirm(page, "Complete", "two")
    expect(page.get_by_role("button", name="Undo")).to_have_count(2)
    page.get_by_text("Cancel one in").locator("..").get_by_role("button", name="Undo").click()
    page.clock.run_for(5000)
    service.until_state("two", "completed")
    assert client.status("one").state == "pending"


def test_leaving_the_page_drops_what_was_not_sent(service, client, page):
    confirm(page, "Cancel")
    page.goto(f"{service.address}/openapi.json")
    page.go_back()
    page.clock.resume()
    expect(page.get_by_role("row", name="one")).to_be_visible()
    stop(page)
    page.clock.run_for(10_000)
    assert client.status("one").state == "pending"


def test_a_page_kept_by_the_browser_sends_nothing(client, page):
    # Left as if it could come back, when its timers would go on.
    confirm(page, "Cancel")
    page.evaluate("() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    page.clock.run_for(10_000)
    assert client.status("one").state == "pending"


def test_the_keyboard_alone_ends_and_undoes(client, page):
    button(page, "Cancel").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(button(page, "Cancel")).to_be_focused()
    page.clock.run_for(10_000)
    assert client.status("one").state == "pending"


def test_the_detail_ends_its_operation(service, page):
    page.get_by_role("link", name="one").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    page.clock.run_for(5000)
    service.until_state("one", "cancelled")


def test_a_refused_end_is_shown_beyond_the_next_figures(client, page):
    page.route("**/v1/operations/one", lambda route: route.fulfill(status=404, json={"detail": "it is lost"}))
    confirm(page, "Cancel")
    page.clock.run_for(5000)
    expect(page.locator("#trouble")).to_have_text("it is lost")
    client.submit(["a"])
    page.clock.run_for(1000)
    expect(page.locator("#pending")).to_have_text("3")
    expect(page.locator("#trouble")).to_be_visible()


@pytest.mark.parametrize("scope", ["read", "admin"])
def test_only_the_scope_admin_is_offered_to_end_operations(serve, tmp_path, visit, scope):
    admin, token = "admin-0123456789abcdef", f"{scope}-0123456789abcdef"
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text("admin-0123456789abcdef admin\nread-0123456789abcdef read\n")
    service = serve("--tokens", str(path))
    with closing(Client(service.address, token=admin)) as client:
        client.submit(["a"], operation_id="one")
    page = visit(service.address).page
    page.get_by_label("Token", exact=True).fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="one")).to_be_visible()
    for name in ("Complete", "Cancel"):
        expect(button(page, name)).to_have_count(int(scope == "admin"))
    page.get_by_role("link", name="one").click()
    expect(page.get_by_role("region", name="Operation one")).to_contain_text("pending")
    for name in ("Complete", "Cancel"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(int(scope == "admin"))

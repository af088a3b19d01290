"""The dashboard in a real browser, over a real service."""

import re
from collections import Counter

import pytest

from tests.ui.png import rows

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>\u202egpj.exe\u2066"
SEEN = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>\\u{202e}gpj.exe\\u{2066}"


def follows_events(page):
    """Wait until no event can be missed any more."""
    expect(page.get_by_text("None since this page was opened.")).to_be_visible()


def test_the_pending_count_follows_submissions_and_ends(service, client, visit):
    page = visit(service.address).page
    expect(page.locator("#pending")).to_have_text("0")
    expect(page.get_by_text("Nothing is pending.")).to_be_visible()
    for _ in range(3):
        client.submit(["a"])
    expect(page.locator("#pending")).to_have_text("3")
    expect(page.get_by_text("Nothing is pending.")).to_be_hidden()
    expect(page).to_have_title("3 pending · purgatory")
    client.signal("a")
    expect(page.locator("#pending")).to_have_text("0")


def test_a_one_shot_wait_in_place_of_another_shows_its_own_keys(service, client, visit):
    page = visit(service.address).page
    ask = "key => { fetch(`/v1/wait?key=${key}&wait=50s`); }"
    page.evaluate(ask, "first")
    expect(page.locator("#operations .name")).to_have_text("firsta one-shot wait")
    page.evaluate(ask, "second")
    expect(page.locator("#operations tr")).to_have_count(2)
    client.signal("first")
    expect(page.locator("#operations .name")).to_have_text(["seconda one-shot wait"])
    expect(page.locator("#operations button")).to_have_count(0)
    client.signal("second")


def test_a_hostile_key_is_text_everywhere_and_nothing_runs(service, client, visit):
    looking = visit(service.address)
    page = looking.page
    follows_events(page)
    client.submit([HOSTILE], need="all", operation_id="one")
    for place in ("#keys bdi", "#operations .name .clamp"):
        expect(page.locator(place)).to_have_text(SEEN)
    expect(page.locator("#operations td.waits")).to_have_text(f"all of {SEEN}")
    expect(page.locator("#events li bdi")).to_have_text(f"{SEEN} · one")
    page.get_by_role("link", name="one").click()
    expect(page.locator("#facts dd").first).to_have_text(SEEN)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#confirm-keys")).to_have_text(SEEN)
    assert page.locator("body img, body script").count() == 0
    assert (looking.dialogs, looking.errors) == ([], [])


def test_the_longest_keys_and_many_of_them_do_not_widen_the_page(service, client, visit):
    page = visit(service.address, viewport={"width": 390, "height": 800}).page
    follows_events(page)
    client.submit([f"{number:02}{'x' * 510}" for number in range(64)], need="all", operation_id="o" * 64)
    expect(page.locator("#operations td.waits")).to_contain_text("and 61 more")
    expect(page.locator("#events li")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_wheel_has_a_strip_per_level_with_bars_at_deadlines(service, client, visit):
    page = visit(service.address).page
    for timeout in (30, 3600, 86_400 * 3):
        client.submit(["a"], timeout=timeout)
    strips = page.locator("#wheel .level")
    expect(strips).to_have_count(4)
    for level in (1, 2, 3):
        expect(strips.nth(level).locator("rect:not(.now)").first).to_be_attached()
    expect(page.locator("#wheel-about")).to_contain_text("deadlines")


def test_events_appear_newest_first(service, client, visit):
    page = visit(service.address).page
    follows_events(page)
    client.submit(["a"], operation_id="one")
    expect(page.locator("#events li")).to_have_text(["submitteda · one"])
    client.signal("a")
    expect(page.locator("#events li").last).to_have_text("submitteda · one")
    expect(page.locator("#events")).to_contain_text("completeda · one")
    expect(page.locator("#no-events")).to_be_hidden()


def test_there_is_no_error_and_no_request_to_anybody_else(service, client, visit):
    looking = visit(service.address)
    follows_events(looking.page)
    client.submit(["a"], operation_id="one")
    client.cancel("one")
    expect(looking.page.locator("#events li .cancelled")).to_be_visible()
    assert looking.errors == []
    assert {"/".join(url.split("/")[:3]) for url in looking.requests} == {service.address}


@pytest.mark.parametrize("scope", ["read", "admin"])
def test_a_token_is_asked_for_and_kept_nowhere_but_in_the_page(serve, tmp_path, visit, scope):
    right, wrong = "right-0123456789abcdef", "wrong-0123456789abcdef"
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"{right} {scope}\n")
    looking = visit(serve("--tokens", str(path)).address)
    page = looking.page
    expect(page.locator("#token")).to_be_visible()
    expect(page.locator("#figures")).to_be_hidden()
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.get_by_text("scope read; admin to complete and cancel")).to_be_visible()
    page.get_by_label("Token", exact=True).fill(wrong)
    page.keyboard.press("Enter")
    expect(page.locator("#trouble")).to_be_visible()
    expect(page.locator("#trouble")).to_have_text(re.compile("token", re.IGNORECASE))
    expect(page.locator("#trouble")).not_to_contain_text(wrong)
    page.locator("#token").fill(right)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#figures")).to_be_visible()
    expect(page.locator("#login")).to_be_hidden()
    expect(page.locator("#trouble")).to_be_hidden()
    kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href]")
    assert kept[:3] == [0, 0, ""]
    assert not any(right in url for url in (*looking.requests, kept[3]))
    assert page.context.cookies() == []
    page.reload()
    expect(page.locator("#token")).to_be_visible()
    expect(page.locator("#figures")).to_be_hidden()


def test_a_lost_service_is_shown_and_its_return_resumes_events(service, client, visit):
    page = visit(service.address).page
    follows_events(page)
    client.submit(["a"])
    expect(page.locator("#events li")).to_have_count(1)
    expect(page.locator("#pending")).to_have_text("1")
    service.kill()
    expect(page.locator("#state")).to_have_text("no answer")
    expect(page.locator("#trouble")).to_contain_text("does not answer")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("#trouble")).to_be_in_viewport()
    expect(page.locator("#pending")).to_have_text("1")  # the last known figure
    service.start()
    expect(page.locator("#state")).to_have_text("serving")
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("#pending")).to_have_text("0")
    service.until_count("streams", 1)  # the page has asked for the events again
    client.submit(["b"], operation_id="again")
    expect(page.locator("#events")).to_contain_text("again")


def test_a_service_that_is_stuck_is_said_too(service, visit):
    page = visit(service.address).page
    expect(page.locator("#state")).to_have_text("serving")
    service.freeze()
    expect(page.locator("#state")).to_have_text("no answer")
    service.thaw()
    expect(page.locator("#state")).to_have_text("serving")


@pytest.mark.parametrize("width", [390, 1400])
def test_light_and_dark_are_pictures_and_not_the_same_one(service, client, visit, tmp_path, width):
    for number in range(30):
        client.submit([f"orders/{number % 7}/confirmed"], timeout=300 + number * 200)
    grounds = {}
    for scheme in ("light", "dark"):
        page = visit(service.address, color_scheme=scheme, viewport={"width": width, "height": 900}).page
        expect(page.locator("#operations tr")).to_have_count(30)
        picture = page.screenshot(path=tmp_path / f"{scheme}-{width}.png")
        colours = Counter(pixel for row in rows(picture) for pixel in row)
        assert len(colours) > 100
        grounds[scheme] = sum(colours.most_common(1)[0][0])
        assert page.evaluate("document.documentElement.scrollWidth") == width
    assert grounds["dark"] < 3 * 64 < 3 * 192 < grounds["light"]

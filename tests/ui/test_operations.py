"""The table of operations: search, pages and places, and one operation in detail."""

import re

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

TO = "\u2013"  # an en dash


def search(page, text):
    box = page.get_by_role("searchbox", name="Search operations")
    box.fill(text)
    box.press("Enter")


def names(page):
    return page.locator("#operations .id")


def submit(client, number, key="a"):
    for place in range(number):
        client.submit([key], operation_id=f"{key}-{place:03}")


def test_pages_reach_every_pending_operation(service, client, visit):
    submit(client, 103)
    page = visit(service.address).page
    following, previous = (page.get_by_role("button", name=f"{which} page") for which in ("Next", "Previous"))
    expect(page.get_by_text(f"1{TO}50 of 103")).to_be_visible()
    expect(previous).to_be_disabled()
    following.click()
    expect(page.get_by_text(f"51{TO}100 of 103")).to_be_visible()
    following.press("Enter")
    expect(page.get_by_text(f"101{TO}103 of 103")).to_be_visible()
    expect(names(page)).to_have_text(["a-100", "a-101", "a-102"])
    expect(following).to_be_disabled()
    expect(following).to_be_focused()
    previous.click()
    expect(names(page).first).to_have_text("a-050")
    for place in range(60):
        client.cancel(f"a-{place:03}")
    expect(page.get_by_text(f"1{TO}43 of 43")).to_be_visible()  # the second page is no more


@pytest.mark.parametrize(
    ("text", "found"),
    [("b-001", ["b-001"]), ("b", ["b-000", "b-001"]), ("", ["a-000", "b-000", "b-001"]), ("c", [])],
)
def test_a_search_finds_ids_keys_and_prefixes(service, client, visit, text, found):
    submit(client, 1)
    submit(client, 2, "b")
    page = visit(service.address).page
    expect(names(page)).to_have_count(3)
    search(page, text)
    expect(names(page)).to_have_text(found)
    expect(page.get_by_text("begins with c")).to_be_visible(visible=not found)


def test_an_ended_operation_is_found_by_its_id(service, client, visit):
    client.submit(["a"], operation_id="one")
    client.signal("a", 7)
    page = visit(service.address).page
    expect(page.get_by_text("Nothing is pending.")).to_be_visible()
    search(page, "one")
    page.get_by_role("link", name="one is completed").click()
    region = page.get_by_role("region", name="Operation one")
    expect(region).to_contain_text("a = 7")
    expect(region.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_result_opens_the_operation_in_detail(service, client, visit):
    client.submit(["a", "b"], need="all", timeout=600, operation_id="one", data={"for": "me"})
    client.submit(["a"], operation_id="two")
    client.signal("a", 7)
    page = visit(service.address).page
    page.get_by_role("link", name="one").click()
    assert page.url.endswith("/ui/#operation=one")
    region = page.get_by_role("region", name="Operation one")
    facts = dict(zip(*(region.locator(tag).all_inner_texts() for tag in ("dt", "dd")), strict=True))
    assert re.search(", in (10 m 0 s|[1-9] m [1-5]?[0-9] s)$", facts.pop("Deadline"))
    assert re.fullmatch(r"[\d.]+ m?s", facts.pop("Age"))
    assert facts == {
        "Keys": "a, b",
        "State": "pending",
        "Needs": "a signal on each of its keys",
        "Waiting for": "all of b",
        "Signals": "a = 7",
        "Owner": "none",
        "Data": '{"for":"me"}',
    }
    client.signal("b")
    expect(region).to_contain_text("nothing more")
    expect(region).to_contain_text("completed")
    region.get_by_role("button", name="Back to the list").click()
    expect(region).to_be_hidden()
    expect(page.get_by_text("Nothing is pending.")).to_be_visible()


def test_the_detail_has_an_address_and_the_way_back_a_focus(service, client, visit):
    submit(client, 2)
    page = visit(f"{service.address}/ui/#operation=a-001", whole=True).page
    expect(page.get_by_role("heading", name="Operation a-001")).to_be_focused()
    expect(page.get_by_role("table", name="Operations")).to_be_hidden()
    page.get_by_role("button", name="Back to the list").click()
    page.get_by_role("link", name="a-001").press("Enter")
    expect(page.get_by_role("region", name="Operation a-001")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("link", name="a-001")).to_be_focused()


def test_an_unknown_operation_is_said_to_be_unknown(service, visit):
    page = visit(f"{service.address}/ui/#operation=%ff", whole=True).page
    expect(page.get_by_role("region", name="Operation %ff")).to_contain_text(
        re.compile("operation", re.IGNORECASE)
    )


@pytest.mark.parametrize("how", ["pointer", "focus"])
def test_rows_keep_their_place_while_the_table_is_in_use(service, client, visit, how):
    submit(client, 4)
    page = visit(service.address).page
    row = page.get_by_role("row", name="a-002")
    expect(row).to_be_visible()
    if how == "pointer":
        row.hover()
    else:
        row.get_by_role("link").focus()
    before = row.bounding_box()
    client.cancel("a-000")
    submit(client, 1, "b")
    expect(page.get_by_role("row", name="a-000")).to_contain_text("it has ended")
    expect(names(page)).to_have_text(["a-000", "a-001", "a-002", "a-003", "b-000"])
    after = row.bounding_box()
    assert (after["y"], after["height"]) == (before["y"], before["height"])
    if how == "pointer":
        page.mouse.move(0, 0)
    else:
        page.get_by_role("searchbox").focus()
    expect(names(page)).to_have_text(["a-001", "a-002", "a-003", "b-000"])

"""The charts and what they say, the wheel's counts, the events, and the tables of queues and workers."""

import re
from contextlib import closing

import pytest

from purgatory_async.client import Client

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

PENDING = "Pending operations over the last minute"
RATES = "Arrivals, completions and expiries in each second of the last minute"


def test_the_wheel_tells_operations_from_internal_timers(service, client, visit):
    for timeout in (3000, 3600, None):
        client.submit(["a"], timeout=timeout)
    page = visit(service.address).page
    # A function: a script's value is its last expression, a fetch, which would be waited for.
    page.evaluate(
        "() => { for (const n of [1, 2]) fetch('../v1/queues/q/take?wait=50s', { method: 'POST' }) }"
    )
    expect(page.locator("#wheel-about")).to_contain_text("2 operations and 2 internal timers")


@pytest.mark.parametrize(
    ("name", "words"), [(PENDING, r"\d+ pending"), (RATES, r"\d+ arrivals, \d+ completed, \d+ expired")]
)
def test_a_chart_tells_its_values_on_hover_and_focus(service, client, visit, name, words):
    client.submit(["a"])
    page = visit(service.address).page
    chart = page.get_by_role("img", name=name)
    tip = chart.locator("..").get_by_role("tooltip")
    expect(page.locator("#pending-top")).to_have_text("0 to 1")
    some = re.compile(r"\S+ \S+ \S+")  # seconds
    expect(chart.locator("polyline").first).to_have_attribute("points", some)
    box = chart.bounding_box()
    expect(tip).to_be_hidden()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 5)
    expect(tip).to_have_text(re.compile(f"1 s ago: {words}"))
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    chart.focus()
    expect(tip).to_have_text(re.compile(f"1 s ago: {words}"))
    page.keyboard.press("ArrowLeft")
    expect(tip).to_have_text(re.compile(f"^[23] s ago: {words}"))
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_charts_have_axes_with_units_and_a_legend(service, visit):
    page = visit(service.address).page
    for words in ("operations per second", "60 s ago", "now"):
        expect(page.get_by_text(words, exact=True).first).to_be_visible()
    expect(page.locator(".legend li")).to_have_text(["arrivals", "completed", "expired"])


def test_a_strip_of_the_wheel_tells_a_buckets_deadlines(service, client, visit):
    for _ in range(3):
        client.submit(["a"], timeout=7200)
    page = visit(service.address).page
    strip = page.get_by_role("img", name=re.compile("3 deadlines"))
    strip.focus()
    tip = strip.locator("..").get_by_role("tooltip")
    expect(tip).to_have_text(re.compile("^in 0 ms to .*: 0 deadlines"))
    page.keyboard.press("End")
    expect(tip).to_have_text(re.compile("deadlines$"))


def test_paused_events_stay_and_the_newer_are_counted(service, client, visit):
    page = visit(service.address).page
    expect(page.get_by_text("None since this page was opened.")).to_be_visible()
    client.submit(["a"], operation_id="one")
    expect(page.locator("#events li")).to_have_text(["submitteda · one"])
    pause = page.get_by_role("button", name="Pause events")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    client.submit(["b"], operation_id="two")
    expect(page.get_by_text("Paused; 1 newer.")).to_be_visible()
    expect(page.locator("#events li")).to_have_text(["submitteda · one"])
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#events li")).to_have_text(["submittedb · two", "submitteda · one"])


@pytest.mark.parametrize(
    ("text", "shown"), [("b/", ["two"]), ("one", ["one"]), ("submitted", ["two", "one"]), ("no", [])]
)
def test_events_are_filtered_by_kind_id_and_key(service, client, visit, text, shown):
    page = visit(service.address).page
    expect(page.get_by_text("None since this page was opened.")).to_be_visible()
    client.submit(["a/1"], operation_id="one")
    client.submit(["b/1"], operation_id="two")
    expect(page.locator("#events li")).to_have_count(2)
    page.get_by_role("textbox", name="Filter events").fill(text)
    expect(page.locator("#events .id")).to_have_text(shown)


def test_queues_are_shown_and_workers_only_with_a_store(serve, tmp_path, visit):
    alone, stored = serve(), serve("--store", f"sqlite:///{tmp_path}/log.db")
    page = visit(alone.address).page
    with closing(Client(alone.address)) as client:
        client.put("jobs", 1)
        client.set_queue("mail", max_attempts=1)
        client.put("mail", 1)
        client.give_back(client.take("mail"))
    expect(page.get_by_role("table", name="Queues").locator("tbody tr")).to_have_count(3)
    words = r"In all 2 ready, the oldest for .+s; 1 went to a dead queue\."
    expect(page.locator("#queues-about")).to_have_text(re.compile(words))
    expect(page.get_by_role("table", name="Workers")).to_be_hidden()
    page = visit(stored.address).page
    expect(page.get_by_role("table", name="Workers").locator("tbody tr")).to_contain_text(["alive, this one"])

"""The page of a link in a browser: a person presses a button, or a key; nothing else decides."""

from contextlib import closing

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ports import free_port
from tests.processes import Served, until
from tests.service.proxied import Proxy

pytestmark = pytest.mark.slow

LONG = {
    "title": "Deploy " + "wxyz" * 48,
    "text": "The build passed.\n\n" + "0123456789" * 60 + "\n" + "Two lines, and <b>no markup</b>.\n" * 20,
    "choices": ["yes", "no", "W" * 64, "later, when the other one is there"],
    "comment": "optional",
}
SHORT = {"title": "Deploy 7?", "choices": ["yes", "no"], "comment": "optional"}


class Links:
    """A service whose links lead to its own address, or to a proxy's."""

    def __init__(self, *flags, port=0, public=None):
        port = port or free_port()
        self.served = Served("--public-url", public or f"http://127.0.0.1:{port}", *flags, port=port)
        self._count = 0

    def ask(self, **ask):
        """Ask a question; returns its id."""
        self._count += 1
        name = f"q-{self._count}"
        body = {"keys": ["deploys"], "id": name, "timeout": "1h", "ask": {**SHORT, **ask}}
        assert self.served.request("POST", "/v1/operations", body).status == 202
        return name

    def link(self, name, **order):
        made = self.served.request("POST", f"/v1/operations/{name}/links", order)
        assert made.status == 201
        return made.json["url"]

    def read(self):
        """How often a page was read."""
        read = {"method": "GET", "route": "/a/{token}"}
        return sum(
            value
            for name, value in self.served.samples().items()
            if name.startswith("purgatory_http_requests_total")
            and all(f'{label}="{text}"' in name for label, text in read.items())
        )

    def view(self, name):
        return self.served.request("GET", f"/v1/operations/{name}").json


@pytest.fixture
def links():
    links = Links()
    with links.served:
        yield links


def faults(page):
    """What axe finds: the rule, and the first element that breaks it."""
    found = Axe().run(page).response["violations"]
    return [(fault["id"], fault["nodes"][0]["html"]) for fault in found]


def test_a_press_decides_and_shows_the_answer(links, visit):
    name = links.ask(text="It passed.")
    visited = visit(links.link(name, by="Ann"), whole=True)
    page = visited.page
    expect(page).to_have_title("Deploy 7?")
    expect(page.get_by_role("heading", name="Deploy 7?")).to_be_visible()
    expect(page.get_by_text("It passed.")).to_be_visible()
    expect(page.get_by_role("definition").first).to_have_text("Ann")
    assert links.view(name)["state"] == "pending"
    page.get_by_label("Comment").fill("go\non")
    page.get_by_role("button", name="yes").click()
    expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    view = links.view(name)
    assert (view["state"], view["by"]) == ("completed", "Ann")
    assert view["result"] == {"choice": "yes", "comment": "go\non"}
    page.reload()
    page.go_back()
    page.go_forward()
    expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    assert links.view(name) == view
    assert visited.errors == visited.dialogs == []
    assert {url.rpartition("/")[2] for url in visited.requests if "/a/" not in url} <= {"favicon.ico"}


def test_the_keyboard_alone_decides(links, visit):
    name = links.ask()
    page = visit(links.link(name), whole=True).page
    page.keyboard.press("Tab")
    expect(page.get_by_label("Comment")).to_be_focused()
    page.keyboard.type("no\n thanks")
    assert links.view(name)["state"] == "pending"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    button = page.get_by_role("button", name="no", exact=True)
    expect(button).to_be_focused()
    assert button.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    assert links.view(name)["result"] == {"choice": "no", "comment": "no\n thanks"}


def test_a_comment_that_is_wanted_is_asked_for_first(links, visit):
    name = links.ask(comment="required")
    page = visit(links.link(name), whole=True).page
    page.get_by_role("button", name="no").click()
    expect(page.get_by_label("Comment")).to_be_focused()
    assert links.view(name)["state"] == "pending"
    page.get_by_label("Comment").fill("too early")
    page.get_by_role("button", name="no").click()
    expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    assert links.view(name)["result"] == {"choice": "no", "comment": "too early"}


def test_of_two_that_race_one_wins_and_both_see_it(links, visit):
    name = links.ask()
    pages = [visit(links.link(name, by=by), whole=True).page for by in ("Ann", "Bob")]
    statuses = []
    for page, choice in zip(pages, ("yes", "no"), strict=True):
        page.on("response", lambda reply: statuses.append((reply.request.method, reply.status)))
        page.get_by_role("button", name=choice).evaluate("element => setTimeout(() => element.click(), 50)")
    for page in pages:
        expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    view = links.view(name)
    assert sorted(status for method, status in statuses if method == "POST") == [303, 409]
    for page in pages:
        rows = page.get_by_role("definition").all_text_contents()
        assert rows[:2] == [view["result"]["choice"], view["by"]]
    lost = pages[view["by"] == "Ann"]
    expect(lost.get_by_role("alert")).to_contain_text("does not count")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ask", [SHORT, LONG], ids=["short", "long"])
def test_it_fits_320_pixels_and_axe_finds_nothing(links, visit, scheme, ask):
    name = links.ask(**ask)
    url = links.link(name, by="Ann " * 32)
    page = visit(url, whole=True, color_scheme=scheme, viewport={"width": 320, "height": 640}).page
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(246, 245, 242)", "dark": "rgb(18, 17, 15)"}[scheme]
    for _ in range(2):  # the question, then the answer
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        assert faults(page) == []
        page.set_viewport_size({"width": 1400, "height": 900})
        assert faults(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        if page.get_by_role("button").count():
            page.get_by_label("Comment").fill("w" * 4000)
            page.get_by_role("button").nth(-1).click()
            expect(page.get_by_role("heading", name="Answered")).to_be_visible()


def test_axe_finds_nothing_on_the_pages_of_refusals(links, visit):
    name = links.ask()
    url = links.link(name)
    for wrong in (url[:-3], f"{url}AAAA"):
        page = visit(wrong, whole=True).page
        expect(page.get_by_role("heading", name="No such link")).to_be_visible()
        assert faults(page) == []
    page = visit(url, whole=True).page
    page.get_by_role("button", name="yes").evaluate("element => { element.value = 'maybe'; }")
    page.get_by_role("button", name="yes").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert faults(page) == []
    assert links.view(name)["state"] == "pending"


def test_what_a_question_says_is_never_markup(links, visit):
    hostile = "<img src=x onerror=alert(1)>\"'</title></textarea><script>alert(2)</script>"
    name = links.ask(title=hostile, text=hostile, choices=[hostile[:64], "no"])
    visited = visit(links.link(name, by=hostile), whole=True)
    page = visited.page
    expect(page).to_have_title(hostile)
    expect(page.get_by_role("heading")).to_have_text(hostile)
    page.get_by_label("Comment").fill(hostile)
    page.get_by_role("button").first.click()
    expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    assert links.view(name)["result"] == {"choice": hostile[:64], "comment": hostile}
    assert page.locator("img, script").count() == 0
    assert visited.dialogs == visited.errors == []


def test_what_reads_ahead_decides_nothing(links, visit):
    name = links.ask()
    url = links.link(name)
    page = visit("about:blank", whole=True).page
    mail = (
        f'<link rel="prefetch" href="{url}"><img src="{url}?1"><iframe src="{url}?2"></iframe>'
        f'<script type="speculationrules">{{"prefetch": [{{"urls": ["{url}?3"]}}],'
        f' "prerender": [{{"urls": ["{url}?4"]}}]}}</script><a href="{url}" ping="{url}?5">Open</a>'
    )
    address = f"http://127.0.0.1:{links.served.port}/mail"
    page.route(address, lambda route: route.fulfill(body=mail, content_type="text/html"))
    page.goto(address)
    until(lambda: links.read() >= 4, "what reads ahead")
    assert links.view(name)["state"] == "pending"
    page.get_by_role("link").click()
    expect(page.get_by_role("button", name="yes")).to_be_visible()
    assert links.view(name)["state"] == "pending"


def test_a_form_of_another_site_decides_nothing(links, visit):
    name = links.ask()
    page = visit("about:blank", whole=True).page
    page.set_content(
        f'<form method="post" action="{links.link(name)}"><button name="choice" value="yes">win</button></form>'
    )
    page.get_by_role("button").click()
    expect(page.get_by_role("heading", name="Not sent from this page")).to_be_visible()
    assert links.view(name)["state"] == "pending"


@pytest.mark.parametrize("kept", [True, False], ids=["path kept", "path stripped"])
def test_it_works_below_the_path_of_a_proxy(tmp_path, visit, kept):
    port, path = free_port(), "/team/holds"
    proxy = Proxy(
        tmp_path,
        port,
        {"location / {": f"location {path}/ {{", f":{port};": f":{port};" if kept else f":{port}/;"},
    )
    links = Links("--base-path", path, port=port, public=f"{proxy.address}{path}")
    with closing(links.served), links.served:
        name = links.ask()
        url = links.link(name)
        assert url.startswith(f"{proxy.address}{path}/a/")
        page = visit(url, whole=True).page
        assert (
            page.get_by_role("button", name="yes").evaluate("each => getComputedStyle(each).fontWeight")
            == "600"
        )
        page.get_by_role("button", name="yes").click()
        expect(page.get_by_role("heading", name="Answered")).to_be_visible()
        assert page.url == url
        assert links.view(name)["state"] == "completed"
    proxy.stop()

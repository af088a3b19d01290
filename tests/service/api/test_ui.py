"""The dashboard's files: how they are served, and what they must not contain."""

import re
from graphlib import TopologicalSorter
from html.parser import HTMLParser

import pytest

from purgatory_async.service.api.page import STATIC

pytestmark = pytest.mark.asyncio

SCRIPTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.js"))}
FILES = {"": "text/html", "style.css": "text/css", **dict.fromkeys(SCRIPTS, "text/javascript")}
VOID = {"meta", "link", "input"}
# Text and its backgrounds; WCAG's AA asks for 4.5 to 1.
TEXTS = ("text", "quiet", "ember", "good", "bad", "calm")
GROUNDS = ("ground", "panel")


def policy(headers):
    """The content security policy, by directive."""
    directives = (part.split() for part in headers["content-security-policy"].split(";"))
    return {name: sources for name, *sources in directives}


@pytest.mark.parametrize("name", FILES)
async def test_every_file_is_served_whole_under_a_strict_policy(client, name):
    reply = await client.request("GET", f"/ui/{name}")
    assert reply.status == 200
    assert reply.body == (STATIC / (name or "index.html")).read_bytes()
    assert reply.headers["content-type"] == f"{FILES[name]}; charset=utf-8"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"
    rules = policy(reply.headers)
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == ["'none'"]
    assert rules["form-action"] == ["'none'"]
    assert {source for sources in rules.values() for source in sources} == {"'none'", "'self'"}


@pytest.mark.parametrize("name", FILES)
async def test_head_has_the_headers_of_get_and_no_body(client, name):
    whole, head = [await client.request(method, f"/ui/{name}") for method in ("GET", "HEAD")]
    assert (head.status, head.body, head.headers) == (200, b"", whole.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/index.html",
        "/ui/../ui/app.js",
        "/ui/..%2f..%2fservice.py",
        "/ui/%2e%2e/app.py",
        "/ui/..\\app.py",
        "/ui/app.js/",
        "/ui//app.js",
        "/ui/app.js%00",
        "/ui//etc/passwd",
        "/ui/%2fetc%2fpasswd",
        "/ui/app.js.map",
        "/ui/./app.js",
        "/UI/",
    ],
)
async def test_no_other_path_leads_to_a_file(client, path):
    reply = await client.request("GET", path)
    assert (reply.status, reply.slug) == (404, "not-found")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_files_are_only_read(client, method):
    reply = await client.request(method, "/ui/app.js")
    assert (reply.status, reply.slug, reply.headers["allow"]) == (405, "method-not-allowed", "GET, HEAD")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("accept", ["*/*", "text/*", "text/html,text/css;q=0.9,text/javascript;q=0.1"])
async def test_what_a_browser_accepts_is_answered(client, name, accept):
    assert (await client.request("GET", f"/ui/{name}", headers=[("accept", accept)])).status == 200


@pytest.mark.parametrize("name", FILES)
async def test_who_accepts_something_else_is_refused(client, name):
    reply = await client.request("GET", f"/ui/{name}", headers=[("accept", "image/png")])
    assert (reply.status, reply.slug) == (406, "not-acceptable")


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/app.js"])
async def test_a_query_is_refused(client, path):
    reply = await client.request("GET", f"{path}?token=secret")
    assert (reply.status, reply.slug) == (400, "bad-parameter")


@pytest.mark.parametrize("prefix", ["", "/behind/it"])
async def test_without_the_slash_it_redirects_to_the_page_anywhere(make_client, prefix):
    client = make_client(root_path=prefix)
    reply = await client.request("GET", "/ui")
    assert (reply.status, reply.headers["location"]) == (308, f"{prefix}/ui/")
    assert (await client.request("GET", "/ui/")).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("prefix", ["", "/behind/it"])
async def test_the_root_leads_to_the_page(make_client, prefix, method):
    reply = await make_client(root_path=prefix).request(method, "/")
    assert (reply.status, reply.headers["location"], reply.body) == (308, f"{prefix}/ui/", b"")


async def test_the_page_is_open_where_everything_else_asks_for_a_token(make_client, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("admin-0123456789abcdef admin\n")
    client = make_client(tokens=str(tokens))
    assert [(await client.request("GET", f"/ui/{name}")).status for name in FILES] == [200] * len(FILES)
    assert (await client.request("GET", "/v1/admin/stats")).status == 401


class Page(HTMLParser):
    """The page's content, by element."""

    def __init__(self):
        super().__init__()
        self.elements = []
        self.open = []
        self.inline = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"script", "style"} and data.strip():
            self.inline.append(data)


@pytest.fixture
def page():
    page = Page()
    page.feed((STATIC / "index.html").read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    return page


async def test_nothing_in_the_page_is_script_or_style_itself(page):
    assert page.inline == []
    assert not [tag for tag, _ in page.elements if tag in {"style", "iframe", "object", "embed", "base"}]
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag


async def test_the_page_names_only_the_two_other_files(page):
    named = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in {"src", "href", "action", "srcset", "data"}
    ]
    assert sorted(named) == ["app.js", "style.css"]


async def test_the_script_reaches_every_module_by_a_relative_address():
    reached, left = set(), ["app.js"]
    while left:
        name = left.pop()
        reached.add(name)
        named = re.findall(r"""\bfrom "([^"]+)";""", SCRIPTS[name])
        assert len(named) == len(re.findall(r"\bimport\b", SCRIPTS[name]))
        assert all(module.startswith("./") for module in named)
        left += {module.removeprefix("./") for module in named} - reached
    assert reached == set(SCRIPTS)


async def test_no_two_modules_import_each_other():
    imports = {name: re.findall(r'from "./([^"]+)"', text) for name, text in SCRIPTS.items()}
    TopologicalSorter(imports).prepare()


async def test_every_element_the_script_uses_is_in_the_page_once(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    asked = re.findall(r'\bat\("([^"]+)"\)', "\n".join(SCRIPTS.values()))
    assert len(ids) == len(set(ids))
    assert len(set(asked)) > 10
    assert set(asked) <= set(ids)


async def test_the_page_can_be_read_aloud(page):
    ids = {attributes.get("id") for _, attributes in page.elements}
    labels = {attributes["for"] for tag, attributes in page.elements if tag == "label"}
    assert {attributes["id"] for tag, attributes in page.elements if tag == "input"} <= labels
    for tag, attributes in page.elements:
        if tag == "svg":
            assert attributes["aria-label"]
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids
    assert dict(page.elements)["html"]["lang"] == "en"


@pytest.mark.parametrize(
    "sink",
    [
        r"innerHTML",
        r"outerHTML",
        r"insertAdjacentHTML",
        r"document\.write",
        r"\beval\b",
        r"\bFunction\(",
        r"DOMParser",
        r"createContextualFragment",
        r"setHTML",
        r"\bsrcdoc\b",
        r"localStorage",
        r"sessionStorage",
        r"document\.cookie",
        r"indexedDB",
        r"""set(Timeout|Interval)\(["'`]""",
        r"https?://(?!www\.w3\.org/2000/svg\b)",
    ],
)
async def test_the_script_has_no_way_to_run_text_or_to_keep_a_token(sink):
    assert not [name for name, text in SCRIPTS.items() if re.search(sink, text)]


async def test_the_style_loads_nothing():
    text = (STATIC / "style.css").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(|image-set", text)


def palettes():
    """The light palette, and the dark one."""
    text = (STATIC / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    return [dict(re.findall(r"--(\w+): #([0-9a-f]{6});", block)) for block in blocks]


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


async def test_every_text_stands_out_from_its_ground_in_both_palettes():
    light, dark = palettes()
    for palette in (light, dark):
        for text in TEXTS:
            for ground in GROUNDS:
                low, high = sorted(luminance(palette[name]) for name in (text, ground))
                ratio = (high + 0.05) / (low + 0.05)
                assert ratio >= 4.5, f"{text} #{palette[text]} on {ground} #{palette[ground]}: {ratio:.2f}"

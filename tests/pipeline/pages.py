"""What holds for every page of the pipeline."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from purgatory_async.pipeline.pages.drawing import COLOURS


class Tags(HTMLParser):
    """Collects what a browser would take for elements."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def active_parts(page):
    """Elements and attributes that a page has only if something was not escaped."""
    tags = Tags(page).found
    elements = [tag for tag, _ in tags if tag in {"script", "img", "iframe", "object", "link"}]
    return elements + [name for _, attrs in tags for name in attrs if name.startswith("on")]


def outside_links(page):
    """What a browser would load from elsewhere."""
    named = [
        attrs[name]
        for _, attrs in Tags(page).found
        for name in ("src", "href", "xlink:href")
        if attrs.get(name, "#")[0] != "#"
    ]
    return named + re.findall(r"@import|url\((?!#)", page)


def check_figures(page, figures, directory):
    """Check that figures are whole, in the colours of the page, and refer to no part of another."""
    for name, svg in figures.items():
        ET.fromstring(svg)
        assert svg in page
        assert not [colour for colour in COLOURS.values() if colour in svg]
        assert (directory / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ET.parse(directory / f"{name}.svg")
    names = [set(re.findall(r'id="([^"]*)"', svg)) for svg in figures.values()]
    assert sum(map(len, names)) == len(set().union(*names))
    for svg, own in zip(figures.values(), names, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', svg)) <= own

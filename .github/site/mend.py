"""Mends what Sphinx and Furo write, for readers who use keys, a screen reader or a phone."""

import re
from pathlib import Path
from typing import Final

# What axe finds otherwise, and what to write instead.
_INSTEAD: Final = (
    # What is wider than its box must be scrolled by keys, too.
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (re.compile(r'<div class="table-wrapper'), '<div tabindex="0" class="table-wrapper'),
    # A column without a name has no header.
    (re.compile(r'<th class="head[^>]*>(<p></p>)?</th>'), "<td></td>"),
    (re.compile(r'<p class="caption" role="heading">'), '<p class="caption" role="heading" aria-level="2">'),
    (re.compile(r'<aside class="sidebar-drawer"'), '<aside class="sidebar-drawer" aria-label="Pages"'),
    (re.compile(r'<aside class="toc-drawer'), '<aside aria-label="On this page" class="toc-drawer'),
    (re.compile(r'<div id="search-results">'), '<h1>Search</h1>\n<div id="search-results">'),
)
# The parameters of a signature, one a line, are no list of definitions.
_PARAMETERS: Final = re.compile(r'<dl>\n((?:<dd><em class="sig-param.*?</dd>\n)+)</dl>')


def mend(site: Path, root: str) -> None:
    """Mend all pages of a built site.

    Args:
        site: Its folder.
        root: Its address or path: links of the page for missing addresses, which is shown at any depth, start there.
    """
    for path in site.rglob("*.html"):
        if "_downloads" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        for found, instead in _INSTEAD:
            text = found.sub(instead, text)
        text = _PARAMETERS.sub(_as_lines, text)
        if path.name == "404.html":
            text = text.replace("<head>", f'<head><base href="{root}">', 1)
        path.write_text(text, encoding="utf-8")


def _as_lines(parameters: re.Match[str]) -> str:
    return parameters[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")

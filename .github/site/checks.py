"""Checks the built pages: every local link leads to a file and an anchor, every other one is well formed."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LINKS: Final = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src"}


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: Final[list[str]] = []
        self.anchors: Final[set[str]] = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element has of both."""
        given = dict(attrs)
        self.anchors.update(str(given[name]) for name in ("id", "name") if given.get(name))
        link = given.get(_LINKS.get(tag, ""))
        if link is not None:
            self.links.append(link)


def faults(site: Path) -> list[str]:
    """Return what is wrong with the links of a built site, and which pages no other page leads to."""
    site = site.resolve()
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    found = [
        f"{path.relative_to(site)}: {fault}"
        for path, page in pages.items()
        for fault in _broken(site, path, pages)
    ]
    reached = {site / "index.html", site / "404.html"}
    for path, page in pages.items():
        reached |= {target for link in page.links if (target := _target(site, path, link)) != path if target}
    return found + [f"{path.relative_to(site)}: no page leads here" for path in pages if path not in reached]


def _broken(site: Path, path: Path, pages: dict[Path, _Page]) -> Iterator[str]:
    for link in dict.fromkeys(pages[path].links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if parts.scheme not in {"https", "http", "mailto", "data"} or not (parts.netloc or parts.path):
                yield f"malformed link {link}"
            continue
        target = _target(site, path, link)
        if target is None or not target.is_file():
            yield f"broken link {link}"
        elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"no such anchor {link}"


def _target(site: Path, path: Path, link: str) -> Path | None:
    """Return the file that a local link leads to; None for one of another site, or out of this one."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    base = site if path.name == "404.html" else path.parent
    target = (base / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    return target if target.is_relative_to(site) else None

"""The index of the site, and what the navigation has."""

from collections.abc import Sequence
from typing import Final

from pages import HERE, PLACES, ROOT, Page

_HEAD: Final = "<!-- README.md before its first section -->"
_SECTIONS: Final = "<!-- the sections -->"


def index(pages: Sequence[Page], head: str) -> str:
    """Return the index: README's head, the sections with their pages, and the tables of contents."""
    text = (ROOT / HERE / "index.md").read_text(encoding="utf-8")
    text = text.replace(_HEAD, head)
    sections = {section: [page for page in pages if page.section == section] for section in PLACES}
    listed = "\n\n".join(
        f"**{section}.** {PLACES[section][0]}\n{' · '.join(f'[{page.title}]({page.name}.md)' for page in found)}"
        for section, found in sections.items()
        if found
    )
    contents = (_contents(section, found) for section, found in sections.items() if found)
    return "\n\n".join([text.replace(_SECTIONS, listed), *contents])


def _contents(section: str, pages: Sequence[Page]) -> str:
    lines = "\n".join(page.name for page in pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {section}\n\n{lines}\n```"


def llms_txt(pages: Sequence[Page], description: str) -> str:
    """Return ``llms.txt``: each page with its address and its first sentence, by section (llmstxt.org)."""
    parts = [f"# purgatory-async\n\n> {description}\n\nAll pages in one file: [llms-full.txt](llms-full.txt)"]
    for section, (purpose, _) in PLACES.items():
        found = [page for page in pages if page.section == section]
        lines = (f"- [{page.title}]({page.name}.md): {page.summary}" for page in found)
        parts.append("\n".join([f"## {section}", "", purpose, "", *lines]))
    return "\n\n".join(parts) + "\n"


def llms_full(pages: Sequence[Page]) -> str:
    """Return ``llms-full.txt``: the text of all pages."""
    return "\n\n".join(f"<!-- {page.name} -->\n\n{page.text.strip()}" for page in pages) + "\n"

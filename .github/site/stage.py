"""Stage the sources of the site: pages with rewritten links, the reference, the index; and the copies for machines."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Final

from navigation import index, llms_full, llms_txt
from pages import HERE, ROOT, Links, Page, find_pages, split_readme, tracked
from reference import api, commands, formats, http, metrics, problems, settings
from sources import Sources

GENERATED: Final = {
    "reference/http": http.markdown,
    "reference/problems": problems.markdown,
    "reference/settings": settings.markdown,
    "reference/metrics": metrics.markdown,
    "reference/commands": commands.markdown,
    "reference/log": formats.log,
    "reference/journal": formats.journal,
}


def stage(folder: Path, machines: Path) -> list[str]:
    """Write all sources of the site into a folder, and what is only for machines into another.

    Returns:
        The links that lead nowhere.
    """
    files = tracked()
    pages = find_pages(files)
    sources = Sources(folder, files)
    links = Links(pages, sources.show)
    pages = [replace(page, text=links.rewrite(page.text, page.source, page.name)) for page in pages]
    head = links.rewrite(split_readme()[0], "README.md", "index")
    made = {"reference/api/index": api.contents, **GENERATED}
    pages = [*(Page("", name, "Reference", make()) for name, make in made.items()), *pages, sources.listing()]
    modules = [Page("", api.name_of(module), "", api.markdown(module)) for module in api.MODULES]
    for page in [*pages, *modules]:
        _write(folder / f"{page.name}.md", page.text)
    _write(folder / "index.md", index(pages, head))
    _write(folder / "404.md", (ROOT / HERE / "404.md").read_text(encoding="utf-8"))
    sources.write()
    for page in pages:
        _write(machines / f"{page.name}.md", page.text)
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["description"]
    _write(machines / "llms.txt", llms_txt(pages, about))
    _write(machines / "llms-full.txt", llms_full(pages))
    _write(machines / "openapi.json", json.dumps(http.described(), indent=1))
    return links.broken


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

"""Where each page of the repository stands in the site, and where its links lead there.

A page lies beside the code that it is about. The site takes it from there: `stage` copies all pages into one folder,
under the names of `PLACES`, and rewrites their relative links. A link to a page leads to its place, one to any other
file or folder to a page that shows it (`sources`). README.md becomes two: the index has what stands before its first
section.
"""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HERE: Final = ".github/site"
OVERVIEW: Final = "overview"  # what README.md says after its head

# The sections of the navigation: what they are for, and which files they have, in this order. A pattern takes what an
# earlier one did not; README.md of a folder has the folder's name.
PLACES: Final[Mapping[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "Start": (
        "Learn it step by step, from an empty folder.",
        (
            (f"{HERE}/tutorials/wait_in_an_app.md", "tutorials"),
            (f"{HERE}/tutorials/long_poll.md", "tutorials"),
            ("purgatory_async/service/ASK_A_PERSON.md", "tutorials"),
            (f"{HERE}/tutorials/*.md", "tutorials"),
            ("README.md", ""),
            ("examples/README.md", ""),
        ),
    ),
    "How-to: in your code": (
        "Do one thing with the library, the store, the clients or the test kits.",
        (
            *((f"purgatory_async/{name}/README.md", "guides") for name in ("patterns", "durable", "cluster")),
            (f"{HERE}/howto/own_app.md", "howto"),
            *(
                (f"purgatory_async/{name}/README.md", "guides")
                for name in ("client", "testing", "kafka", "pipeline")
            ),
            ("purgatory_async/*/README.md", "guides"),
            ("examples/*/README.md", "examples"),
        ),
    ),
    "How-to: run the service": (
        "Start it, deploy it, upgrade it, and repair it at night.",
        (
            ("purgatory_async/service/README.md", "guides"),
            ("examples/deploy/README.md", "examples"),
            (f"{HERE}/howto/runbook.md", "howto"),
            (f"{HERE}/howto/*.md", "howto"),
        ),
    ),
    "Compare": (
        "What else does this, when not to use it, and the way from elsewhere.",
        ((f"{HERE}/compare.md", ""), (f"{HERE}/from/*.md", "from")),
    ),
    "Reference": ("Look it up. Generated from the code.", (("purgatory_async/*/TABLES.md", "reference"),)),
    "Explanation": (
        "Why it works.",
        ((f"{HERE}/explanation/*.md", "explanation"), ("purgatory_async/ARCHITECTURE.md", "explanation")),
    ),
    "Evidence": (
        "What shows that the promises hold.",
        ((f"{HERE}/evidence.md", ""), ("bench/README.md", "evidence"), ("tests/README.md", "evidence")),
    ),
    "Contributing": (
        "Change it, and what has changed.",
        (
            (".github/CONTRIBUTING.md", "contributing"),
            (".github/*.md", "contributing"),
            ("*/*.md", "contributing"),
        ),
    ),
}
NO_PAGES: Final = (
    f"{HERE}/index.md",
    f"{HERE}/404.md",
    ".github/ISSUE_TEMPLATE/*",
    ".github/PULL_REQUEST_TEMPLATE*",
)
# What the pages of the reference are generated from: a link to one of these with an anchor leads to the page.
GENERATED_FROM: Final = {
    "purgatory_async/durable/documents/problems.py": "reference/problems",
    "purgatory_async/service/contract/http_problems.py": "reference/problems",
    "purgatory_async/service/settings/settings.py": "reference/settings",
    "purgatory_async/service/gauges.py": "reference/metrics",
    "purgatory_async/metrics.py": "reference/metrics",
    "purgatory_async/cli/commands.py": "reference/commands",
    "purgatory_async/service/api/routes.py": "reference/http",
    "purgatory_async/durable/fold/entries.py": "reference/log",
    "purgatory_async/journal/schema.py": "reference/journal",
}

_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCED: Final = re.compile(r"^(?P<fence> *(```+|~~~+)).*?^\s*\2[`~]*\s*$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the repository.

    Attributes:
        source: Its path in the repository.
        name: Its name in the site, without an ending.
        section: Where the navigation has it.
        text: Its Markdown.
    """

    source: str
    name: str
    section: str
    text: str

    @property
    def title(self) -> str:
        """Its first heading, as plain text."""
        found = _HEADING.search(self.text)
        return plain(found[1]) if found else self.name

    @property
    def summary(self) -> str:
        """The first sentence under its title."""
        prose = re.sub(r"\A\s*# .*\n", "", _FENCED.sub("", self.text))
        paragraphs = (part.strip() for part in re.split(r"\n\s*\n", prose))
        first = next((part for part in paragraphs if re.match(r"[\w`*\[]", part)), "")
        return re.split(r"(?<=[.!?])\s", plain(first.replace("\n", " ")))[0].rstrip(":")


def plain(markdown: str) -> str:
    """Return a line of Markdown without its links and marks."""
    return re.sub(r"[`*]", "", re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", markdown))


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading, and MyST too."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of all headings outside code."""
    return {anchor(found) for found in _HEADING.findall(_FENCED.sub("", text))}


def tracked() -> list[str]:
    """Return the paths of the repository's files, those not yet committed included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the git of the caller
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return sorted(path for path in listed.stdout.splitlines() if (ROOT / path).is_file())


def split_readme() -> tuple[str, str]:
    """Return README.md before its first section, and the rest as a page."""
    head, mark, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## ")
    return head, f"# Overview\n{mark}{rest}"


def find_pages(files: list[str]) -> list[Page]:
    """Return all pages in the order of the navigation; each Markdown file has one."""
    left = [
        path for path in files if path.endswith(".md") and not any(fnmatch(path, each) for each in NO_PAGES)
    ]
    exact = {pattern for _, patterns in PLACES.values() for pattern, _ in patterns}
    found = []
    for section, (_, patterns) in PLACES.items():
        for pattern, folder in patterns:
            for path in [
                each for each in left if each == pattern or (each not in exact and fnmatch(each, pattern))
            ]:
                left.remove(path)
                found.append(_page(path, folder, section))
    if left:
        raise ValueError(f"every Markdown file must have a place in PLACES, got {', '.join(left)}")
    return found


def _page(path: str, folder: str, section: str) -> Page:
    if path == "README.md":
        return Page(path, OVERVIEW, section, split_readme()[1])
    file = PurePosixPath(path)
    name = (file.parent.name if file.stem == "README" else file.stem).lower()
    return Page(path, f"{folder}/{name}".lstrip("/"), section, (ROOT / path).read_text(encoding="utf-8"))


class Links:
    """Where relative links of the repository lead in the site.

    Args:
        pages: All of its pages.
        show: Makes the page of another file or folder, and returns its name; None if it does not exist.
    """

    def __init__(self, pages: list[Page], show: Callable[[str], str | None]) -> None:
        self._names: Final = {page.source: page.name for page in pages}
        self._overview: Final = anchors(split_readme()[1])
        self._show: Final = show
        self.broken: Final[list[str]] = []

    def rewrite(self, text: str, source: str, name: str) -> str:
        """Return a page's Markdown with its links as they are in the site; code is left alone."""
        if source == "README.md":  # which is two pages
            text = text.replace("](#", "](README.md#")
        return "".join(
            part if is_code else _LINK.sub(lambda link: self._target(link, source, name), part)
            for part, is_code in _parts(text)
        )

    def _target(self, link: re.Match[str], source: str, name: str) -> str:
        path = normpath(f"{PurePosixPath(source).parent}/{link[1]}")
        fragment = link[2] or ""
        place = self._place(path, fragment)
        if place is None:
            self.broken.append(f"{source}: {link[0]}")
            return link[0]
        if place.startswith("/"):  # a file, as it is
            return place
        return f"{relpath(place, PurePosixPath(name).parent)}.md{'' if place.startswith('source/') else fragment}"

    def _place(self, path: str, fragment: str) -> str | None:
        if path == "README.md" and fragment[1:] not in self._overview:
            return "index"
        if fragment and not re.match(r"#L\d", fragment) and path in GENERATED_FROM:
            return GENERATED_FROM[path]
        for page in (path, f"{path}/README.md"):
            if page in self._names:
                return self._names[page]
        return self._show(path)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Split Markdown into prose and fenced code."""
    end = 0
    for block in _FENCED.finditer(text):
        yield text[end : block.start()], False
        yield block[0], True
        end = block.end()
    yield text[end:], False

"""A page under `.github/site/from`: a program as it was, a test that it fails, the program that passes it."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.source_tree import ROOT
from tests.test_readme import fenced_blocks

FOLDER = ROOT / ".github" / "site" / "from"
SECTIONS = ("Before", "The test", "After", "Call by call", "What stays different", "Step by step")
NAMED = re.compile(r"# (\w+\.py)\n")


@dataclass(frozen=True)
class Migration:
    """A page that leads from one program to another.

    Attributes:
        name: The page's file, without its suffix.
        text: The page.
    """

    name: str
    text: str

    def section(self, title: str) -> str:
        """What is under a heading of the second level, down to the next one."""
        _, found, rest = self.text.partition(f"\n## {title}\n")
        assert found, f"{self.name} has no section {title!r}"
        return rest.partition("\n## ")[0]

    def files(self, title: str) -> dict[str, str]:
        """The programs of a section, by the names in their first lines."""
        blocks = [block for block in fenced_blocks(self.section(title)) if block.language == "python"]
        named = {match[1]: block.text for block in blocks if (match := NAMED.match(block.text))}
        assert len(named) == len(blocks), (
            f"a program of {self.name}, {title!r}, has no name, or another one's"
        )
        return named

    @property
    def failures(self) -> list[str]:
        """The lines in which pytest names what the former program fails."""
        lines = [block.text for block in fenced_blocks(self.section("The test")) if block.language == "text"]
        return "".join(lines).splitlines()

    def write(self, title: str, folder: Path) -> None:
        """Save a section's program and the page's test in a folder."""
        for name, code in (self.files(title) | self.files("The test")).items():
            (folder / name).write_text(code, encoding="utf-8")


MIGRATIONS = {
    path.stem: Migration(path.stem, path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.md"))
}

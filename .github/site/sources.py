"""Pages for the files and folders that a page links to: a file highlighted, a folder as a list, a picture as it is."""

import json
import shutil
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Final

from pages import ROOT, Page

PICTURES: Final = frozenset({".png", ".svg", ".html"})
# Lexers by the end of the name; other files are shown as text.
LEXERS: Final = {
    "Dockerfile": "docker",
    ".conf": "nginx",
    ".css": "css",
    ".js": "javascript",
    ".json": "json",
    ".lua": "lua",
    ".py": "python",
    ".pyi": "python",
    ".pyx": "cython",
    ".pxi": "cython",
    ".service": "ini",
    ".sh": "bash",
    ".socket": "ini",
    ".sql": "postgres",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


class Sources:
    """Writes a page for each file that is asked for, once.

    Args:
        stage: The folder of the site's sources.
        files: The paths of the repository's files.
    """

    def __init__(self, stage: Path, files: list[str]) -> None:
        self._stage: Final = stage
        self._files: Final = files
        self.shown: Final[dict[str, str]] = {}

    def show(self, path: str) -> str | None:
        """Return the name of the page of a file or folder; of a picture its path from the stage; None for neither."""
        if path in self.shown:
            return self.shown[path]
        below = [file for file in self._files if file.startswith(f"{path}/")]
        if path not in self._files and not below:
            return None
        if PurePosixPath(path).suffix in PICTURES:
            self.shown[path] = f"/files/{path}"
            target = self._stage / "files" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, target)
        elif below:
            self.shown[path] = f"source/{path}/index"
        else:
            self.shown[path] = f"source/{path}"
        return self.shown[path]

    def listing(self) -> Page:
        """Return the page that lists all that was shown."""
        links = (
            f"- [{path}]({relpath(name, 'source')}.md)"
            for path, name in sorted(self.shown.items())
            if name.startswith("source/")
        )
        text = "# Source files\n\nThe files and folders that pages of this site lead to.\n\n" + "\n".join(
            links
        )
        return Page("", "source/index", "Contributing", text)

    def write(self) -> None:
        """Write the pages of all that was shown."""
        for path, name in self.shown.items():
            if not name.startswith("source/"):
                continue
            listing = name.endswith("/index") and not (ROOT / path).is_file()
            self._write(name, path, self._folder(path, name) if listing else _file(path))

    def _folder(self, path: str, name: str) -> str:
        """List a folder's files; those with a page are links."""
        here = PurePosixPath(name).parent
        rows = []
        for file in (each for each in self._files if each.startswith(f"{path}/")):
            shown, label = self.shown.get(file, ""), f"`{file.removeprefix(f'{path}/')}`"
            rows.append(
                f"- [{label}]({relpath(shown, here)}.md)" if shown.startswith("source/") else f"- {label}"
            )
        return "\n".join(rows)

    def _write(self, name: str, title: str, body: str) -> None:
        target = self._stage / f"{name}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        # Reached by links; the search is for pages that explain.
        target.write_text(
            f"---\norphan: true\nno-search: true\n---\n\n# {title}\n\n{body}\n", encoding="utf-8"
        )


def _file(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".ipynb"):
        return "\n\n".join(_cell(cell) for cell in json.loads(text)["cells"])
    return _block(text, next((lexer for end, lexer in LEXERS.items() if path.endswith(end)), "text"))


def _cell(cell: dict[str, list[str] | str]) -> str:
    """Return a cell of a notebook; its headings are no sections of the page."""
    text = "".join(cell["source"])
    return _block(text, "python") if cell["cell_type"] == "code" else text.replace("# ", "").strip()


def _block(text: str, lexer: str) -> str:
    fence = "`" * 8
    return f"{fence}{lexer}\n{text.rstrip()}\n{fence}"

"""Writes the parts of a page: tables, and prose from docstrings."""

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; a cell's line breaks become spaces, and its bars are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(str(cell)) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def code(text: object) -> str:
    """Return a text as code of one line."""
    shown = " ".join(str(text).split())
    fence = "``" if "`" in shown else "`"
    return f"{fence}{shown}{fence}" if shown else ""


def prose(text: str) -> str:
    """Return a docstring's text as Markdown: what looks like HTML outside code is shown as it is."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else re.sub(r"([<>])", r"\\\1", part) for part in parts)


def document(thing: Any) -> tuple[str, dict[str, str]]:
    """Return a docstring before its sections, and what its section Attributes says of each name."""
    text = inspect.getdoc(thing) or ""
    before, _, attributes = text.partition("\nAttributes:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in attributes.splitlines():
        if match := re.match(r" {4}([\w, ]+): (.*)", line):
            names = [name.strip() for name in match[1].split(",")]
            found |= dict.fromkeys(names, match[2])
        elif line.startswith("     "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return prose(before.strip()), {name: prose(said) for name, said in found.items()}

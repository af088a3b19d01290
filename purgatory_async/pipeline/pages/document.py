"""Puts a page together: self-contained, without network or script, style and figures inside.

Strings of a journal are untrusted: they enter a page only through `text`, which escapes them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from purgatory_async.pipeline.pages.formats import number, printable

__all__ = ["Caption", "Column", "Row", "captioned", "cards", "counted", "table", "text", "write_document"]

_STYLE: Final = (
    files("purgatory_async.pipeline.pages") / "page.css"
)  # also from an archive, as spark-submit takes it

Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str], bool]  # heading, cell, whether it is text
Caption = tuple[str, str, str, bool]  # a figure's name, title, description, whether it takes the whole width


def write_document(title: str, parts: Iterable[str], path: Path) -> None:
    """Write a page.

    Args:
        title: Of the document, as HTML.
        parts: Its sections as HTML, in order; empty ones are left out.
        path: The file; overwritten.
    """
    body = "\n".join(part for part in parts if part)
    style = _STYLE.read_text(encoding="utf-8")
    path.write_text(
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
        encoding="utf-8",
    )


def text(value: object) -> str:
    """Untrusted text on one line, escaped for HTML."""
    return escape(printable(str(value)))


def counted(count: int, thing: str) -> str:
    """A count and its noun, in the plural where it is due.

    >>> counted(1, "run"), counted(1234, "run")
    ('1 run', '1,234 runs')
    """
    return f"{number(count)} {thing}{'' if count == 1 else 's'}"


def cards(figures: Iterable[tuple[str, str]]) -> str:
    """The figures to read first, each with its words."""
    items = "\n".join(f"<li><b>{figure}</b><span>{words}</span></li>" for figure, words in figures)
    return f'<ul class="cards">\n{items}\n</ul>'


def captioned(heading: str, captions: Iterable[Caption], figures: Mapping[str, str]) -> str:
    """A section of those captioned figures that were drawn; empty if none was.

    Args:
        heading: Of the section.
        captions: In the order of the page.
        figures: SVG by name, from `purgatory_async.pipeline.pages.drawing.draw`.
    """
    shown = [
        f'<figure class="{"wide" if wide else "half"}" role="img" aria-label="{title}: {words}">\n'
        f"<figcaption><b>{title}</b><span>{words}</span></figcaption>\n{figures[name]}\n</figure>"
        for name, title, words, wide in captions
        if name in figures
    ]
    if not shown:
        return ""
    return f"<h2>{heading}</h2>\n" + '<div class="figures">\n' + "\n".join(shown) + "\n</div>"


def table(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """A table; its first column heads the rows."""
    heads = "".join(f'<th scope="col"{_class(is_text)}>{name}</th>' for name, _, is_text in columns)
    lines = []
    for row in rows:
        (_, first, _), *rest = columns
        cells = "".join(f"<td{_class(is_text)}>{cell(row)}</td>" for _, cell, is_text in rest)
        lines.append(f'<tr><th scope="row">{first(row)}</th>{cells}</tr>')
    return (
        f'<div class="box"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table></div>"
    )


def _class(is_text: bool) -> str:
    return ' class="text"' if is_text else ""

"""Rows as aligned text. Rich's table takes half a millisecond a row; a listing may have a hundred thousand."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

_GAP: Final = "  "


def aligned(rows: Sequence[Sequence[str]], console: Console | None = None) -> Iterator[str]:
    """Lay rows out in columns as wide as their widest cell. O(characters).

    Args:
        rows: All of one length, at least one.
        console: Whose width the lines fit, cells folded where they must be; None for lines of any width.

    Yields:
        The lines.

    >>> list(aligned([("id", "keys"), ("o-1", "k")]))
    ['id   keys', 'o-1  k']
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if console is not None:
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - console.width
        while excess > 0 and max(widths) > 1:
            widths[widths.index(max(widths))] -= 1
            excess -= 1
    for row in rows:
        folded = [
            [cell] if console is None or cell_len(cell) <= width else _folded(cell, width, console)
            for cell, width in zip(row, widths, strict=True)
        ]
        for line in zip_longest(*folded, fillvalue=""):
            yield _GAP.join(map(set_cell_size, line, widths)).rstrip()


def print_table(rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print rows below their head, the first one, in the width of a terminal; ``empty`` if there are no others."""
    if len(rows) == 1:
        click.echo(empty)
        return
    console = Console()
    # What a program reads or a file keeps is not cut to a width.
    lines = aligned(rows, console if console.is_terminal else None)
    click.secho(next(lines), bold=True)
    click.echo("\n".join(lines))


def _folded(cell: str, width: int, console: Console) -> list[str]:
    return [line.plain for line in Text(cell).wrap(console, width)]

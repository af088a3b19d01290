"""Rows in columns: as wide as necessary, folded on a narrow terminal, cheap per row."""

import io

import httpx2
import pytest
from rich.cells import cell_len
from rich.console import Console

from purgatory_async.cli.columns import aligned
from tests.calls import noted_calls
from tests.cli.faked import OPERATION

ROWS = [
    ("id", "keys", "for"),
    ("o-1", "order:1, order:2, order:3", "1 m"),
    ("o-2", "x" * 70, "2 h 2 m"),
    ("o-3", "\u8a02\u55ae" * 20, "-"),
    ("o-4", "[red] :smile:", ""),
]


def narrow(width):
    return Console(file=io.StringIO(), width=width, force_terminal=True)


def test_columns_are_as_wide_as_their_widest_cell():
    assert list(aligned([("id", "keys", "for"), ("o", "\u8a02", "1 s")])) == [
        "id  keys  for",
        "o   \u8a02    1 s",
    ]


def test_a_line_ends_with_its_last_cell():
    assert not [line for line in aligned(ROWS) if line != line.rstrip()]


@pytest.mark.parametrize("width", [20, 21, 40, 79])
def test_cells_are_folded_where_the_terminal_is_narrow(width):
    lines = list(aligned(ROWS, narrow(width)))
    assert max(map(cell_len, lines)) <= width
    shown = "".join("".join(lines).split())
    assert shown.count("x") == 70
    assert shown.count("\u8a02") == shown.count("\u55ae") == 20
    assert len(lines) > len(ROWS)


def test_a_terminal_that_is_wide_enough_changes_nothing():
    assert list(aligned(ROWS, narrow(200))) == list(aligned(ROWS))


def calls_of(work):
    """How many Python functions are called."""
    with noted_calls() as called:
        work()
    return len(called)


def listed(faked, cli, number, *options):
    operations = [{**OPERATION, "id": f"o{each:05d}"} for each in range(number)]

    def page(request):
        start = int(request.url.params.get("cursor", 0))
        rest = {"next": str(start + 100)} if start + 100 < number else {}
        return httpx2.Response(200, json={"operations": operations[start : start + 100], **rest})

    faked.reply = page
    return calls_of(lambda: cli("ls", "--limit", "1000000", *options))


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_listing_calls_few_functions_a_row(faked, cli, monkeypatch, terminal):
    monkeypatch.setattr("purgatory_async.cli.columns.Console", lambda: narrow(120) if terminal else Console())
    listed(faked, cli, 100)  # imports, and caches
    few, more, many = (listed(faked, cli, number) for number in (100, 200, 600))
    assert many - more <= 4.2 * (more - few)
    assert (many - more) / 400 < 150

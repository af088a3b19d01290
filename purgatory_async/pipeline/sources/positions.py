"""Positions between the lines of a live segment, found without reading all of it.

A segment may grow while it is read, and may become Parquet between two reads. So a position has two coordinates: the
bytes before it, for the JSON lines, and the ``seq`` before it, for the Parquet file with the same records.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from purgatory_async.journal.lines import Damage, read_lines

__all__ = ["START", "Position", "cuts", "last_position"]

_STEP: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Position:
    """A position between two lines of a segment.

    Attributes:
        offset: Of the line after it, in bytes.
        seq: Of the last record before it; 0 for none.
    """

    offset: int
    seq: int


START: Final = Position(0, 0)
"""Before the first line of any segment."""


def last_position(path: Path, since: Position = START) -> Position:
    """Find the end of the last whole line.

    Args:
        path: JSON lines; bytes after the last newline are torn and ignored.
        since: The position to start from.

    Returns:
        The end of the last whole line, or ``since`` if no line follows it.

    Raises:
        OSError: The file cannot be read; `FileNotFoundError` if it became Parquet.
    """
    with path.open("rb") as file:
        end = _line_start(file, os.fstat(file.fileno()).st_size, since.offset)
        return Position(end, _seq_before(file, end, since))


def cuts(path: Path, begin: Position, end: Position, size: int) -> list[Position]:
    """Divide lines of a segment into pieces of about the same size, at line boundaries.

    Args:
        path: JSON lines.
        begin: The start.
        end: The end; the file may be longer.
        size: Of a piece, in bytes; a longer line makes a longer piece.

    Returns:
        Ascending positions from ``begin`` to ``end``, both included.

    Raises:
        OSError: The file cannot be read; `FileNotFoundError` if it became Parquet.
    """
    found = [begin]
    with path.open("rb") as file:
        for aim in range(begin.offset + size, end.offset, size):
            start = _line_start(file, aim, found[-1].offset)
            if start > found[-1].offset:
                found.append(Position(start, _seq_before(file, start, found[-1])))
    return found if found[-1] == end else [*found, end]


def _line_start(file: BinaryIO, before: int, floor: int) -> int:
    """The last start of a line at or before ``before``, at least ``floor``. O(a line)."""
    for begin, chunk in _backwards(file, before, floor):
        if (newline := chunk.rfind(b"\n")) >= 0:
            return begin + newline + 1
    return floor


def _seq_before(file: BinaryIO, end: int, since: Position) -> int:
    """The ``seq`` of the last record before ``end``. O(a line), plus the damage after it."""
    while end > since.offset:
        start = _line_start(file, end - 1, since.offset)
        file.seek(start)
        (line,) = read_lines(file.read(end - start))
        if not isinstance(line, Damage):
            return line.seq
        end = start
    return since.seq


def _backwards(file: BinaryIO, end: int, floor: int) -> Iterator[tuple[int, bytes]]:
    while end > floor:
        begin = max(floor, end - _STEP)
        file.seek(begin)
        yield begin, file.read(end - begin)
        end = begin

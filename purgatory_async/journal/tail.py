"""Finds the last record of a segment of JSON lines without reading what comes before it."""

from typing import IO, Final

from purgatory_async.journal.lines import Damage, read_lines
from purgatory_async.journal.schema import Record

__all__ = ["last_record"]

_STEP: Final = 1 << 16


def last_record(file: IO[bytes], before: int, floor: int = 0) -> tuple[int, Record | None]:
    """Find the end of the last whole line, and the last record. O(a line), plus the damage after the record.

    Args:
        file: The segment.
        before: Offset at which to begin, backwards; bytes between the last newline and it are torn.
        floor: Offset of the start of a line, at which to end.

    Returns:
        The offset after the last newline, ``floor`` if there is none, and the record; None if only damage follows
        ``floor``.

    Raises:
        OSError: The file cannot be read.
    """
    start = end = _newline(file, before, floor)
    while end > floor:
        begin = _newline(file, end - 1, floor)
        file.seek(begin)
        (line,) = read_lines(file.read(end - begin))
        if not isinstance(line, Damage):
            return start, line
        end = begin
    return start, None


def _newline(file: IO[bytes], before: int, floor: int) -> int:
    """The offset after the last newline before ``before``; ``floor`` if none is between the two."""
    while before > floor:
        begin = max(floor, before - _STEP)
        file.seek(begin)
        if (newline := file.read(before - begin).rfind(b"\n")) >= 0:
            return begin + newline + 1
        before = begin
    return floor

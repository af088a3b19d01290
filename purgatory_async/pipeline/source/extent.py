"""Fixes the part of a journal that a job reads, and reads it piece by piece.

A segment may grow while it is read, and may become Parquet between two reads. So a position has two coordinates: the
bytes before it, for the JSON lines, and the ``seq`` before it, for the Parquet file with the same records.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.journal.lines import Damage, read_lines, whole_length
from purgatory_async.pipeline.locations import Location, parsed
from purgatory_async.pipeline.refusal import Refused
from purgatory_async.pipeline.source.listing import segments_in
from purgatory_async.pipeline.source.parquet import read_rows, spark_columns

__all__ = [
    "DAMAGE_COLUMNS",
    "START",
    "Extent",
    "Piece",
    "Position",
    "SegmentGone",
    "cuts",
    "damage_in",
    "damage_rows",
    "decode_pieces",
    "divide",
    "encode_pieces",
    "everything_in",
    "last_position",
    "read_table",
    "records_in",
    "survey",
]

_STEP: Final = 1 << 16

# Bytes decoded at a time. Larger blocks are slower: the decoded records should stay in the processor's cache.
_BLOCK: Final = 1 << 18
# Bytes of JSON lines for a task: some seconds of work on one core.
_PIECE: Final = 1 << 24
# Bytes that one request to a store reads.
_AHEAD: Final = 1 << 22


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


def last_position(path: Location, since: Position = START) -> Position:
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
        end = _line_start(file, file.seek(0, os.SEEK_END), since.offset)
        return Position(end, _seq_before(file, end, since))


def cuts(path: Location, begin: Position, end: Position, size: int) -> list[Position]:
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


class SegmentGone(Exception):  # noqa: N818 - called by what happened
    """A segment was deleted before it was read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of a segment.

    Attributes:
        directory: Of the journal.
        segment: The segment's name.
        begin: Its start.
        end: Its end; None for the end of the Parquet file that the segment has become.
    """

    directory: str
    segment: str
    begin: Position = START
    end: Position | None = None

    @property
    def lines(self) -> Location:
        """The segment's file while it is JSON lines."""
        return parsed(self.directory) / f"{self.segment}.jsonl"

    @property
    def parquet(self) -> Location:
        """Its file once it is Parquet."""
        return parsed(self.directory) / f"{self.segment}.parquet"


def everything_in(piece: Piece) -> Iterator[pa.RecordBatch | Damage]:
    """Read a piece's records, in the order of ``seq`` within a kind, and its damage.

    Args:
        piece: Of a journal; if its JSON lines have become Parquet, that is read instead.

    Yields:
        Batches with the columns of `arrow_schema`, and damage.

    Raises:
        SegmentGone: Neither form exists.
        OSError: A file cannot be read.
        pa.ArrowInvalid: A Parquet file has a value that does not fit its column.
    """
    if (file := _open_lines(piece)) is None:
        yield from _rows(piece)
        return
    for offset, block in _blocks(file, piece):
        lines = list(read_lines(block, offset))
        yield from record_batches(line for line in lines if not isinstance(line, Damage))
        yield from (line for line in lines if isinstance(line, Damage))


def records_in(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Read a piece's records only; see `everything_in`."""
    return (found for found in everything_in(piece) if not isinstance(found, Damage))


def damage_in(piece: Piece) -> Iterator[Damage]:
    """Read a piece's damage only; a Parquet file has none. Cheaper than `everything_in`."""
    if (file := _open_lines(piece)) is not None:
        for offset, block in _blocks(file, piece):
            yield from (line for line in read_lines(block, offset) if isinstance(line, Damage))


def _open_lines(piece: Piece) -> BinaryIO | None:
    """Open the segment's JSON lines, which stay readable when removed; None if Parquet must be read."""
    if piece.end is None:
        return None
    try:
        return piece.lines.open("rb", -1 if isinstance(piece.lines, Path) else _AHEAD)
    except FileNotFoundError:
        return None


def _rows(piece: Piece) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_rows(piece.parquet, piece.begin.seq, None if piece.end is None else piece.end.seq)
    except FileNotFoundError:
        raise SegmentGone(
            f"{piece.segment} was deleted before its records after seq {piece.begin.seq} were read; "
            "keep segments for longer than it takes to read them"
        ) from None


def _blocks(file: BinaryIO, piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, about `_BLOCK` bytes each, with their offsets; closes the file at the end."""
    assert piece.end is not None, piece
    offset, rest = piece.begin.offset, b""
    with file:
        file.seek(offset)
        left = piece.end.offset - offset
        while left > 0 and (read := file.read(min(_BLOCK, left))):
            left -= len(read)
            data = rest + read
            whole = whole_length(data)
            yield offset, data[:whole]
            offset, rest = offset + whole, data[whole:]


DAMAGE_COLUMNS: Final = pa.schema([("file", pa.string()), ("offset", pa.int64()), ("reason", pa.string())])
"""The columns of damage: a line that is not a record."""

_SCHEMAS: Final = {"damage": DAMAGE_COLUMNS, "all": pa.schema([*arrow_schema(), *DAMAGE_COLUMNS])}


def read_table(piece: Piece, table: str) -> Iterator[pa.RecordBatch]:
    """Read a piece.

    Args:
        piece: Of a journal.
        table: ``records``, ``damage``, or ``all`` for the columns of both, one of them null in each row.

    Raises:
        SegmentGone: Its segment was deleted.
        OSError: Its segment cannot be read.
    """
    if table == "records":
        yield from records_in(piece)
    elif table == "damage":
        yield from damage_rows(piece, list(damage_in(piece)), table)
    else:
        for kind, found in groupby(everything_in(piece), type):
            if kind is Damage:
                yield from damage_rows(piece, list(found), table)
            else:
                yield from (_without_damage(batch) for batch in found)


def _without_damage(records: pa.RecordBatch) -> pa.RecordBatch:
    nothing = [pa.nulls(records.num_rows, field.type) for field in DAMAGE_COLUMNS]
    return pa.RecordBatch.from_arrays([*records.columns, *nothing], schema=_SCHEMAS["all"])


def damage_rows(piece: Piece, damage: Sequence[Damage], table: str) -> Iterator[pa.RecordBatch]:
    """Convert a piece's damage to one batch, or to none without damage; in ``all``, records' columns are null."""
    if damage:
        columns = {
            "file": [piece.lines.name] * len(damage),
            "offset": [found.offset for found in damage],
            "reason": [found.reason for found in damage],
        }
        nothing = [None] * len(damage)
        schema = _SCHEMAS[table]
        arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class Extent:
    """The contents of a journal at one instant.

    Attributes:
        directory: Of the journal.
        pieces: Of the segments that were JSON lines.
        parquet: The Parquet files, by their columns and types: see `spark_columns`.
    """

    directory: Location
    pieces: tuple[Piece, ...]
    parquet: dict[tuple[tuple[str, str], ...], tuple[Location, ...]]


def survey(directory: Location, piece_size: int = _PIECE) -> Extent:
    """Fix the extent of a journal. Reads the ends of its files, and the whole of those with a checksum.

    Args:
        directory: Of the journal; the program may still write to it, rotate and delete.
        piece_size: Approximate bytes of JSON lines for a task.

    Returns:
        All segments, the live ones up to their last whole line.

    Raises:
        Refused: The directory or a file cannot be read, or a file cannot be part of a journal.
    """
    pieces: list[Piece] = []
    parquet: dict[tuple[tuple[str, str], ...], tuple[Location, ...]] = {}
    directory = directory.absolute()
    try:
        for segment in segments_in(directory):
            whole = Piece(str(directory), segment.name)
            if segment.live:
                try:
                    pieces += divide(replace(whole, end=last_position(whole.lines)), piece_size)
                    continue
                except FileNotFoundError:
                    if not whole.parquet.exists():
                        continue  # deleted since the listing
            columns = spark_columns(whole.parquet)
            parquet[columns] = (*parquet.get(columns, ()), whole.parquet)
    except OSError as error:
        raise Refused(f"{error.filename or directory} cannot be read: {error.strerror}") from None
    return Extent(directory, tuple(pieces), parquet)


def divide(piece: Piece, size: int = _PIECE) -> Iterator[Piece]:
    """Cut a piece of JSON lines into several of about ``size`` bytes; none of them is empty.

    Raises:
        OSError: The file cannot be read; `FileNotFoundError` if it became Parquet.
    """
    assert piece.end is not None, piece
    for begin, end in pairwise(cuts(piece.lines, piece.begin, piece.end, size)):
        yield replace(piece, begin=begin, end=end)


def encode_pieces(pieces: Iterable[Piece]) -> str:
    """Encode pieces as text, for an option of a data source; see `decode_pieces`."""
    return json.dumps(
        [
            (
                piece.directory,
                piece.segment,
                _pair(piece.begin),
                None if piece.end is None else _pair(piece.end),
            )
            for piece in pieces
        ]
    )


def _pair(position: Position) -> tuple[int, int]:
    return position.offset, position.seq


def decode_pieces(text: str) -> list[Piece]:
    """Decode the text of `encode_pieces`.

    >>> pieces = [Piece("dir", "run.node.000001", Position(10, 2), Position(90, 7)), Piece("dir", "run.node.000002")]
    >>> decode_pieces(encode_pieces(pieces)) == pieces
    True
    """
    return [
        Piece(directory, segment, Position(*begin), None if end is None else Position(*end))
        for directory, segment, begin, end in json.loads(text)
    ]

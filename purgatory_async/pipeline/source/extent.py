"""Fixes the part of a journal that a job reads, and reads it piece by piece.

A segment may grow while it is read, and may become Parquet between two reads. So a position has two coordinates: the
bytes before it, for the JSON lines, and the ``seq`` before it, for the Parquet file with the same records.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.errors import Interruption
from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.journal.lines import Damage, read_lines, whole_length
from purgatory_async.journal.segments import Segment, list_segments, segments_among
from purgatory_async.journal.tail import last_record
from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.locations import Location, arrow_source
from purgatory_async.pipeline.operations.between import ALWAYS, Between
from purgatory_async.pipeline.source.parquet import conform, last_wall_ns, read_rows, spark_columns

# Bytes decoded at a time. Larger blocks are slower: the decoded records should stay in the processor's cache.
_BLOCK: Final = 1 << 18
# Bytes of JSON lines for a task: some seconds of work on one core.
_PIECE: Final = 1 << 24
# Bytes that one request to a store reads.
_AHEAD: Final = 1 << 22
# Records of a small journal, and bytes of JSON lines for one of them.
_FEW: Final = 1 << 20
_LINE: Final = 1 << 8

DAMAGE_COLUMNS: Final = pa.schema([("file", pa.string()), ("offset", pa.int64()), ("reason", pa.string())])
"""The columns of damage: a line that is not a record."""

TABLES: Final = {
    "records": arrow_schema(),
    "damage": DAMAGE_COLUMNS,
    "all": pa.schema([*arrow_schema(), *DAMAGE_COLUMNS]),
}
"""What can be read of a journal; ``all`` has the columns of both, and each row is null in the columns of one."""


def segments_in(directory: Location) -> list[Segment]:
    """List the segments of a journal by run, node and number; of a store as bare names.

    Raises:
        OSError: The directory cannot be read.
    """
    if isinstance(directory, Path):
        return list_segments(directory)
    return sorted(segments_among(Path(entry.name) for entry in directory.iterdir()).values())


@dataclass(frozen=True, slots=True)
class Position:
    """A position between two lines of a segment."""

    offset: int  # of the line after it, in bytes
    seq: int  # of the last record before it; 0 for none


START: Final = Position(0, 0)
"""Before the first line of any segment."""


def last_position(path: Location, since: Position = START) -> Position:
    """Find the end of the last whole JSON line, or ``since`` if none follows it; bytes after that are torn.

    Raises:
        OSError: The file cannot be read; `FileNotFoundError` if it became Parquet.
    """
    with path.open("rb") as file:
        return _line_start(file, file.seek(0, os.SEEK_END), since)


def _line_start(file: BinaryIO, before: int, floor: Position) -> Position:
    """The last start of a line at or before ``before``, at least ``floor``. O(a line), plus the damage before it."""
    start, record = last_record(file, before, floor.offset)
    return Position(start, floor.seq if record is None else record.seq)


class SegmentGone(Interruption):
    """A segment was deleted before it was read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of a segment of a journal."""

    directory: Location
    segment: str
    begin: Position = START
    end: Position | None = None  # None for the end of the Parquet file that the segment has become

    @property
    def lines(self) -> Location:
        """The segment's file while it is JSON lines."""
        return self.directory / f"{self.segment}.jsonl"

    @property
    def parquet(self) -> Location:
        """Its file once it is Parquet."""
        return self.directory / f"{self.segment}.parquet"


def divide(piece: Piece, size: int = _PIECE) -> Iterator[Piece]:
    """Cut a piece of JSON lines into several of about ``size`` bytes; none of them is empty.

    Raises:
        OSError: The file cannot be read; `FileNotFoundError` if it became Parquet.
    """
    assert piece.end is not None, piece
    begin = piece.begin
    with piece.lines.open("rb") as file:
        for aim in range(begin.offset + size, piece.end.offset, size):
            cut = _line_start(file, aim, begin)
            if cut != begin:
                yield replace(piece, begin=begin, end=cut)
                begin = cut
    if begin != piece.end:
        yield replace(piece, begin=begin)


def read_table(piece: Piece, table: str = "records") -> Iterator[pa.RecordBatch]:
    """Read one of `TABLES` from a piece, its records in the order of ``seq`` within a kind.

    If its JSON lines have become Parquet, that is read instead; it has no damage.

    Raises:
        SegmentGone: Records were asked for, and neither form of the segment exists.
        OSError: Its segment cannot be read.
        pa.ArrowInvalid: A Parquet file has a value that does not fit its column.
    """
    file = _open_lines(piece)
    if file is None:
        if table != "damage":
            yield from (conform(batch, TABLES[table]) for batch in _rows(piece))
        return
    for offset, block in _blocks(file, piece):
        lines = list(read_lines(block, offset))
        if table != "damage":
            records = record_batches(line for line in lines if not isinstance(line, Damage))
            yield from (conform(batch, TABLES[table]) for batch in records)
        if table != "records":
            yield from damage_rows(piece, [line for line in lines if isinstance(line, Damage)], table)


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


def damage_rows(piece: Piece, damage: Sequence[Damage], table: str) -> Iterator[pa.RecordBatch]:
    """Convert a piece's damage to one batch of a table, or to none without damage."""
    if damage:
        name = piece.lines.name
        rows = [{"file": name, "offset": found.offset, "reason": found.reason} for found in damage]
        yield conform(pa.RecordBatch.from_pylist(rows, DAMAGE_COLUMNS), TABLES[table])


@dataclass(frozen=True, slots=True)
class Extent:
    """The contents of a journal at one instant."""

    directory: Location
    pieces: tuple[Piece, ...]  # of the segments that were JSON lines
    parquet: dict[tuple[tuple[str, str], ...], tuple[Location, ...]]  # by the `spark_columns` of the files
    between: Between = ALWAYS  # the operations that are asked for

    @property
    def everything(self) -> list[Piece]:
        """Its pieces, and each Parquet file as one."""
        files = [path for paths in self.parquet.values() for path in paths]
        return [*self.pieces, *(Piece(self.directory, path.stem) for path in files)]

    @property
    def small(self) -> bool:
        """Whether to work on it takes about as long as to start Spark: a million records. Reads the ends of some files.

        Raises:
            OSError: A Parquet file cannot be read.
        """
        records = sum(piece.end.offset - piece.begin.offset for piece in self.pieces if piece.end) // _LINE
        for path in (path for paths in self.parquet.values() for path in paths):
            if records <= _FEW:
                records += pq.read_metadata(arrow_source(path)).num_rows
        return records <= _FEW


def survey(directory: Location, between: Between = ALWAYS) -> Extent:
    """Fix the extent of a journal: all segments, the live ones up to their last whole line.

    Within a range of time, the segments of a run and node begin with the one before the first that has a record in the
    range: an operation may end at any time after its submission.

    Reads the ends of the files, and the whole of those with a checksum. The program may still write, rotate and delete.

    Raises:
        Refused: The directory or a file cannot be read, or a file cannot be part of a journal.
    """
    pieces: list[Piece] = []
    parquet: dict[tuple[tuple[str, str], ...], tuple[Location, ...]] = {}
    directory = directory.absolute()
    try:
        for segment in _since(directory, segments_in(directory), between.from_ns):
            whole = Piece(directory, segment.name)
            if segment.live:
                try:
                    pieces += divide(replace(whole, end=last_position(whole.lines)))
                    continue
                except FileNotFoundError:
                    if not whole.parquet.exists():
                        continue  # deleted since the listing
            columns = spark_columns(whole.parquet)
            parquet[columns] = (*parquet.get(columns, ()), whole.parquet)
    except OSError as error:
        raise Refused(f"{error.filename or directory} cannot be read: {error.strerror}") from None
    return Extent(directory, tuple(pieces), parquet, between)


def _since(directory: Location, segments: Sequence[Segment], from_ns: int | None) -> Iterator[Segment]:
    """Leave out the segments of each run and node that end before an instant, but for the last of them."""
    if from_ns is None:
        yield from segments
        return
    for _, found in groupby(segments, key=lambda segment: (segment.run_id, segment.node)):
        own = list(found)
        ended = list(takewhile(lambda segment: _ended_before(directory, segment, from_ns), own))
        yield from own[max(len(ended) - 1, 0) :]


def _ended_before(directory: Location, segment: Segment, instant_ns: int) -> bool:
    last_ns = None if segment.live else last_wall_ns(Piece(directory, segment.name).parquet)
    return last_ns is not None and last_ns < instant_ns

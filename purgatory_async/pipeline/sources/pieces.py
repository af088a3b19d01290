"""Pieces of a journal, each read by one task; the same records whether the segment is JSON lines or Parquet."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from purgatory_async.journal.columns import record_batches
from purgatory_async.journal.lines import Damage, read_lines, whole_length
from purgatory_async.pipeline.sources.parquet_segments import read_rows
from purgatory_async.pipeline.sources.positions import START, Position

__all__ = ["Piece", "SegmentGone", "damage_in", "everything_in", "records_in"]

# Bytes decoded at a time. Larger blocks are slower: the decoded records should stay in the processor's cache.
_BLOCK: Final = 1 << 18


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
    def lines(self) -> Path:
        """The segment's file while it is JSON lines."""
        return Path(self.directory, f"{self.segment}.jsonl")

    @property
    def parquet(self) -> Path:
        """Its file once it is Parquet."""
        return Path(self.directory, f"{self.segment}.parquet")


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
        return piece.lines.open("rb")
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

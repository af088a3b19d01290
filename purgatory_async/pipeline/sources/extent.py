"""Fixes the part of a journal that a job reads, so that all its tables have the same records."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from purgatory_async.journal.segments import Segment, list_segments
from purgatory_async.pipeline.refusal import Refused
from purgatory_async.pipeline.sources.parquet_segments import spark_columns
from purgatory_async.pipeline.sources.pieces import Piece
from purgatory_async.pipeline.sources.positions import START, Position, cuts, last_position

__all__ = ["Extent", "decode_pieces", "divide", "encode_pieces", "survey"]

# Bytes of JSON lines for a task: some seconds of work on one core.
_PIECE: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Extent:
    """The contents of a journal at one instant.

    Attributes:
        directory: Of the journal.
        pieces: Of the segments that were JSON lines.
        parquet: The Parquet files, by their columns and types: see `spark_columns`.
    """

    directory: Path
    pieces: tuple[Piece, ...]
    parquet: dict[tuple[tuple[str, str], ...], tuple[Path, ...]]


def survey(directory: Path, piece_size: int = _PIECE) -> Extent:
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
    parquet: dict[tuple[tuple[str, str], ...], tuple[Path, ...]] = {}
    directory = directory.absolute()
    try:
        for segment in list_segments(directory):
            if segment.live:
                try:
                    pieces += _live_pieces(segment, piece_size)
                    continue
                except FileNotFoundError:
                    if not segment.parquet.exists():
                        continue  # deleted since the listing
            columns = spark_columns(segment.parquet)
            parquet[columns] = (*parquet.get(columns, ()), segment.parquet)
    except OSError as error:
        raise Refused(f"{error.filename or directory} cannot be read: {error.strerror}") from None
    return Extent(directory, tuple(pieces), parquet)


def _live_pieces(segment: Segment, size: int) -> Iterator[Piece]:
    return divide(Piece(str(segment.path.parent), segment.name, START, last_position(segment.path)), size)


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

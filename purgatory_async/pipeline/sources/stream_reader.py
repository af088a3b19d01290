"""Reads a growing journal as a stream."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from purgatory_async.journal.lines import Damage
from purgatory_async.pipeline.sources.offsets import (
    Offset,
    advance,
    available,
    decode_offset,
    encode_offset,
    pieces_between,
)
from purgatory_async.pipeline.sources.pieces import Piece, SegmentGone
from purgatory_async.pipeline.sources.rows import damage_rows, read_table

__all__ = ["JournalStreamReader"]


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a growing journal, with the offsets of `encode_offset`.

    Spark keeps it in a separate process while a query runs.

    Args:
        table: One of `purgatory_async.pipeline.sources.journal_source`.
        directory: Of the journal.
        files: Most segments that a batch reads; None for all.
    """

    def __init__(self, table: str, directory: Path, files: int | None) -> None:
        self._table = table
        self._directory = directory
        self._files = files
        self._turn = 0
        self._target: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the interface's
        """The offset before the first batch."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the interface's
        """The limit of segments in a batch."""
        return ReadAllAvailable() if self._files is None else ReadMaxFiles(self._files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the interface's
        """Ignore everything written from now on.

        Raises:
            OSError: The journal cannot be read.
        """
        self._target = available(self._directory, {})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Choose the end of the next batch; ``start`` if nothing is new.

        Raises:
            OSError: The journal cannot be read.
        """
        begin = decode_offset(start)
        target = available(self._directory, begin) if self._target is None else self._target
        files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        self._turn += 1
        end = advance(self._directory, begin, target, files=files, turn=self._turn)
        return start if end == begin else encode_offset(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each piece between two offsets.

        Raises:
            OSError: The journal cannot be read.
        """
        pieces = pieces_between(self._directory, decode_offset(start), decode_offset(end))
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece; a stream skips a segment that was deleted too early, and reports it as damage.

        Raises:
            OSError: Its segment cannot be read.
        """
        piece: Piece = partition.value
        try:
            yield from read_table(piece, self._table)
        except SegmentGone as error:
            if self._table != "records":
                yield from damage_rows(piece, [Damage(piece.begin.offset, str(error))], self._table)

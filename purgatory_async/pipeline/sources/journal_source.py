"""Spark's data source ``purgatory_journal``: the records of a journal, its damage, or both as they come.

Spark's own JSON source takes a torn last line for a record, or hides damage, and reads a file that grows only once.

    spark.dataSource.register(PurgatoryJournal)
    spark.read.format("purgatory_journal").load("journal")
    spark.readStream.format("purgatory_journal").option("table", "all").load("journal")

Options: ``table`` is ``records`` (as if not given), ``damage`` or ``all``, which has the columns of both, those of one
of them null in each row. To a batch, ``pieces`` is what `encode_pieces` gives, instead of all that is there when the
query is planned. To a stream, ``files_per_batch`` is from how many segments a batch reads at most.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from purgatory_async.pipeline.schemas import DAMAGE_SCHEMA, RECORD_SCHEMA
from purgatory_async.pipeline.sources.extent import decode_pieces, survey
from purgatory_async.pipeline.sources.pieces import Piece
from purgatory_async.pipeline.sources.rows import read_table
from purgatory_async.pipeline.sources.stream_reader import JournalStreamReader

__all__ = ["JournalReader", "PurgatoryJournal"]

_TABLES: Final = {
    "records": RECORD_SCHEMA,
    "damage": DAMAGE_SCHEMA,
    "all": StructType([*RECORD_SCHEMA, *DAMAGE_SCHEMA]),
}


class PurgatoryJournal(DataSource):
    """A journal as a table; see the module."""

    @classmethod
    def name(cls) -> str:
        """What ``spark.read.format`` calls it."""
        return "purgatory_journal"

    def schema(self) -> StructType:
        """The columns of the table that was asked for.

        Raises:
            ValueError: There is no such table.
        """
        return _TABLES[self._table()]

    def reader(self, schema: StructType) -> "JournalReader":  # noqa: ARG002 - the interface's
        """Read all that is there once, or the ``pieces``.

        Raises:
            ValueError: There is no such table, or neither a path nor pieces are given.
        """
        if (text := self.options.get("pieces")) is not None:
            return JournalReader(self._table(), decode_pieces(text))
        return JournalReader(self._table(), _all_pieces(self._directory()))

    def streamReader(self, schema: StructType) -> "JournalStreamReader":  # noqa: ARG002, N802 - the interface's
        """Read what is there, and what is added.

        Raises:
            ValueError: There is no such table, no path is given, or ``files_per_batch`` is no positive number.
        """
        files = self.options.get("files_per_batch")
        if files is not None and (not files.isdecimal() or int(files) < 1):
            raise ValueError(f"files_per_batch must be 1 or more, got {files!r}")
        limit = None if files is None else int(files)
        return JournalStreamReader(self._table(), self._directory().absolute(), limit)

    def _table(self) -> str:
        table = self.options.get("table", "records")
        if table not in _TABLES:
            raise ValueError(f"table must be one of {', '.join(_TABLES)}, got {table!r}")
        return table

    def _directory(self) -> Path:
        if "path" not in self.options:
            raise ValueError('a journal must be named: .load("journal")')
        return Path(self.options["path"])


def _all_pieces(directory: Path) -> list[Piece]:
    extent = survey(directory)
    files = [path for paths in extent.parquet.values() for path in paths]
    return [*extent.pieces, *(Piece(str(extent.directory), path.stem) for path in files)]


class JournalReader(DataSourceReader):
    """Reads the pieces of a journal, each of them in a task.

    Args:
        table: Which; see the module.
        pieces: Of one journal or several.
    """

    def __init__(self, table: str, pieces: Sequence[Piece]) -> None:
        self._table = table
        self._pieces = pieces

    def partitions(self) -> Sequence[InputPartition]:
        """One for each piece."""
        return [InputPartition(piece) for piece in self._pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece.

        Raises:
            SegmentGone: Its segment was deleted since.
            OSError: Its segment cannot be read.
        """
        return read_table(partition.value, self._table)

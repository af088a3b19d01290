"""The Spark data source ``purgatory_journal``: the records of a journal, its damage, or both in order.

Spark's own JSON source reads a torn last line as a record, or hides damage, and reads a growing file only once.

    spark.dataSource.register(PurgatoryJournal)
    spark.read.format("purgatory_journal").load("journal")
    spark.readStream.format("purgatory_journal").option("table", "all").load("journal")

Options: ``table`` is ``records`` (the default), ``damage`` or ``all``, which has the columns of both, those of one of
them null in each row. For a batch query, ``pieces`` from `encode_pieces` replace the whole journal. For a stream,
``files_per_batch`` is the most segments that a batch reads.
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
        """The name for ``spark.read.format``."""
        return "purgatory_journal"

    def schema(self) -> StructType:
        """The columns of the chosen table; raises ValueError if it does not exist."""
        return _TABLES[self._table()]

    def reader(self, schema: StructType) -> "JournalReader":  # noqa: ARG002 - the interface's
        """Read the whole journal once, or its ``pieces``.

        Raises:
            ValueError: The table does not exist, or neither a path nor pieces are given.
        """
        if (text := self.options.get("pieces")) is not None:
            return JournalReader(self._table(), decode_pieces(text))
        return JournalReader(self._table(), _all_pieces(self._directory()))

    def streamReader(self, schema: StructType) -> "JournalStreamReader":  # noqa: ARG002, N802 - the interface's
        """Read the journal as it grows.

        Raises:
            ValueError: The table does not exist, no path is given, or ``files_per_batch`` is not a positive number.
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
    """Reads pieces of one or more journals, each in a task."""

    def __init__(self, table: str, pieces: Sequence[Piece]) -> None:
        self._table = table
        self._pieces = pieces

    def partitions(self) -> Sequence[InputPartition]:
        """One for each piece."""
        return [InputPartition(piece) for piece in self._pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a piece.

        Raises:
            SegmentGone: Its segment was deleted.
            OSError: Its segment cannot be read.
        """
        return read_table(partition.value, self._table)

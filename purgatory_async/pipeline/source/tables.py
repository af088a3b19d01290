"""A journal as tables: of one extent, mapped on the workers in columns, or as the Spark data source.

Spark's own JSON source reads a torn last line as a record, or hides damage, and reads a growing file only once. So
``purgatory_journal`` reads the records of a journal, its damage, or both in order.

    spark.dataSource.register(PurgatoryJournal)
    spark.read.format("purgatory_journal").load("journal")
    spark.readStream.format("purgatory_journal").option("table", "all").load("journal")

Options: ``table`` is ``records`` (the default), ``damage`` or ``all``, which has the columns of both, those of one of
them null in each row. For a batch query, ``pieces`` from `encode_pieces` replace the whole journal. For a stream,
``files_per_batch`` is the most segments that a batch reads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from purgatory_async.journal.schema import FIELDS
from purgatory_async.pipeline.locations import Location, arrow_source, parsed
from purgatory_async.pipeline.output import spark_path
from purgatory_async.pipeline.schemas import DAMAGE_SCHEMA, RECORD_SCHEMA, spark_schema
from purgatory_async.pipeline.source.extent import (
    Extent,
    Piece,
    decode_pieces,
    encode_pieces,
    read_table,
    records_in,
    survey,
)
from purgatory_async.pipeline.source.parquet import read_group
from purgatory_async.pipeline.source.stream import JournalStreamReader

__all__ = ["JournalReader", "JournalTables", "PurgatoryJournal", "map_records", "read_journal"]

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
        return JournalReader(self._table(), _all_pieces(survey(self._directory())))

    def streamReader(self, schema: StructType) -> "JournalStreamReader":  # noqa: ARG002, N802 - the interface's
        """Read the journal as it grows.

        Raises:
            ValueError: The table does not exist, no path is given, or ``files_per_batch`` is not a positive number.
        """
        files = self.options.get("files_per_batch")
        if files is not None and (not files.isdecimal() or int(files) < 1):
            raise ValueError(f"files_per_batch must be 1 or more, got {files!r}")
        limit = None if files is None else int(files)
        return JournalStreamReader(self._table(), self._directory(), limit)

    def _table(self) -> str:
        table = self.options.get("table", "records")
        if table not in _TABLES:
            raise ValueError(f"table must be one of {', '.join(_TABLES)}, got {table!r}")
        return table

    def _directory(self) -> Location:
        if "path" not in self.options:
            raise ValueError('a journal must be named: .load("journal")')
        return parsed(self.options["path"]).absolute()


def _all_pieces(extent: Extent) -> list[Piece]:
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


class JournalTables(NamedTuple):
    """A journal's tables as of its survey, however often they are computed.

    Attributes:
        records: A row for each record, with the columns of `FIELDS`, unordered.
        damage: A row for each line that is not a record: ``file``, ``offset``, ``reason``.
    """

    records: DataFrame
    damage: DataFrame


def read_journal(spark: SparkSession, journal: Location | Extent) -> JournalTables:
    """Read a journal as tables.

    Args:
        spark: Its workers must see the files as this process does.
        journal: The directory, or the result of `survey`; a job surveys before Spark starts.

    Returns:
        Both tables, of the same extent: neither has what is written afterwards.

    Raises:
        Refused: The directory or a file cannot be read, or a file cannot be part of a journal.
    """
    extent = journal if isinstance(journal, Extent) else survey(journal)
    if isinstance(extent.directory, Path):
        records = [*_rotated(spark, extent), *_read(spark, extent.pieces, "records")]
    else:  # Spark itself may not know the store
        records = [*_read(spark, _all_pieces(extent), "records")]
    damage = [*_read(spark, extent.pieces, "damage")]
    return JournalTables(
        reduce(DataFrame.unionByName, records) if records else spark.createDataFrame([], RECORD_SCHEMA),
        damage[0] if damage else spark.createDataFrame([], DAMAGE_SCHEMA),
    )


def _read(spark: SparkSession, pieces: Sequence[Piece], table: str) -> Iterator[DataFrame]:
    if pieces:
        spark.dataSource.register(PurgatoryJournal)
        source = spark.read.format(PurgatoryJournal.name()).option("table", table)
        yield source.option("pieces", encode_pieces(pieces)).load()


def _rotated(spark: SparkSession, extent: Extent) -> Iterator[DataFrame]:
    for columns, paths in extent.parquet.items():
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        reader = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
        files = reader.parquet(*(spark_path(path) for path in paths if isinstance(path, Path)))
        present = dict(columns)
        yield files.select(*(_field(name, kind, present.get(name)) for name, kind in FIELDS))


def _field(name: str, wanted: str, found: str | None) -> Column:
    if found is None:
        return F.lit(None).cast(wanted).alias(name)
    return F.col(name).cast(wanted).alias(name)


Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of a Parquet file: what one task reads."""

    path: Location
    number: int


def map_records(
    spark: SparkSession,
    extent: Extent,
    work: Callable[[Iterable[pa.RecordBatch]], Batches],
    columns: Sequence[str],
    schema: pa.Schema,
) -> DataFrame:
    """Read a journal on workers, and map each part of it.

    Args:
        spark: Its workers must see the files as this process does.
        extent: The part of the journal to read.
        work: Maps the batches of records that a task reads.
        columns: The record columns that ``work`` needs.
        schema: Of the results of ``work``.

    Returns:
        The results of ``work`` for all parts.
    """
    parts = list(_parts(extent))

    def read(numbers: Batches) -> Batches:
        """Read the parts with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from work(_records(parts[number], columns))

    return spark.range(0, len(parts), 1, max(len(parts), 1)).mapInArrow(read, spark_schema(schema))


def _parts(extent: Extent) -> Iterator[Piece | _Group]:
    yield from extent.pieces
    for paths in extent.parquet.values():
        for path in paths:
            yield from (
                _Group(path, number) for number in range(pq.read_metadata(arrow_source(path)).num_row_groups)
            )


def _records(part: Piece | _Group, columns: Sequence[str]) -> Batches:
    if isinstance(part, Piece):
        return (batch.select(columns) for batch in records_in(part))
    return read_group(part.path, part.number, columns)

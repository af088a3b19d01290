"""A journal as tables: of one extent, mapped on the workers in columns, or as the Spark data source.

Spark's own JSON source reads a torn last line as a record, or hides damage, and reads a growing file only once. So
``purgatory_journal`` reads the records of a journal, its damage, or both in order.

    spark.dataSource.register(PurgatoryJournal)
    spark.read.format("purgatory_journal").load("journal")
    spark.readStream.format("purgatory_journal").option("table", "all").load("journal")

Options: ``table`` is ``records`` (the default), ``damage`` or ``all``, which has the columns of both, and each row is
null in the columns of one. For a stream, ``files_per_batch`` is the most segments that a batch reads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from purgatory_async.journal.schema import FIELDS
from purgatory_async.pipeline.locations import Location, arrow_source, parsed
from purgatory_async.pipeline.output import spark_path
from purgatory_async.pipeline.source.extent import TABLES, Extent, Piece, read_table, survey
from purgatory_async.pipeline.source.parquet import read_group
from purgatory_async.pipeline.source.stream import JournalStreamReader
from purgatory_async.pipeline.spark_tables import on_workers, spark_schema


class PurgatoryJournal(DataSource):
    """A journal as a table; see the module."""

    @classmethod
    def name(cls) -> str:
        """The name for ``spark.read.format``."""
        return "purgatory_journal"

    def schema(self) -> StructType:
        """The columns of the chosen table; raises ValueError if it does not exist."""
        return spark_schema(TABLES[self._table()])

    def reader(self, schema: StructType) -> "JournalReader":  # noqa: ARG002 - the interface's
        """Read the whole journal once.

        Raises:
            ValueError: The table does not exist, or no path is given.
        """
        return JournalReader(self._table(), survey(self._directory()).everything)

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
        if table not in TABLES:
            raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table!r}")
        return table

    def _directory(self) -> Location:
        if "path" not in self.options:
            raise ValueError(
                f'a journal must be named, as in .load("journal"), got the options {sorted(self.options)}'
            )
        return parsed(self.options["path"]).absolute()


class JournalReader(DataSourceReader):
    """Reads pieces of a journal, each in a task."""

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
    """A journal's tables as of its survey, however often they are computed."""

    records: DataFrame  # a row for each record, with the columns of `FIELDS`, unordered
    damage: DataFrame  # a row for each line that is not a record: `file`, `offset`, `reason`


def read_journal(spark: SparkSession, journal: Location | Extent) -> JournalTables:
    """Read a journal as tables of one extent: neither has what is written after the `survey`.

    Spark's workers must see the files as this process does.

    Raises:
        Refused: The directory or a file cannot be read, or a file cannot be part of a journal.
    """
    extent = journal if isinstance(journal, Extent) else survey(journal)
    local = isinstance(extent.directory, Path)  # Spark itself may not know the store
    records = [*_rotated(spark, extent)] if local else []
    others = extent.pieces if local else extent.everything
    if others or not records:
        records.append(_pieces(spark, others, "records"))
    return JournalTables(reduce(DataFrame.unionByName, records), _pieces(spark, extent.pieces, "damage"))


def _pieces(spark: SparkSession, pieces: Sequence[Piece], table: str) -> DataFrame:
    return on_workers(spark, pieces, partial(read_table, table=table), spark_schema(TABLES[table]))


def _rotated(spark: SparkSession, extent: Extent) -> Iterator[DataFrame]:
    for columns, paths in extent.parquet.items():
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        reader = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
        files = reader.parquet(*(spark_path(path) for path in paths if isinstance(path, Path)))
        present = dict(columns)
        fields = ((name, F.col(name) if name in present else F.lit(None), kind) for name, kind in FIELDS)
        yield files.select(*(column.cast(kind).alias(name) for name, column, kind in fields))


Batches = Iterator[pa.RecordBatch]


def map_records(
    spark: SparkSession,
    extent: Extent,
    work: Callable[[Iterable[pa.RecordBatch]], Batches],
    columns: Sequence[str],
    schema: pa.Schema,
) -> DataFrame:
    """Read a journal on workers, which must see the files as this process does, and map each part of it.

    Args:
        spark: The session.
        extent: The part of the journal to read.
        work: Maps the batches of records that a task reads.
        columns: The record columns that ``work`` needs.
        schema: The schema of the results of ``work``.
    """
    parts: list[Callable[[], Batches]] = [partial(_selected, piece, columns) for piece in extent.pieces]
    for path in (path for paths in extent.parquet.values() for path in paths):
        groups = pq.read_metadata(arrow_source(path)).num_row_groups
        parts += [partial(read_group, path, group, columns) for group in range(groups)]
    return on_workers(spark, parts, lambda read: work(read()), spark_schema(schema))


def _selected(piece: Piece, columns: Sequence[str]) -> Batches:
    return (batch.select(columns) for batch in read_table(piece))

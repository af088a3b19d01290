"""Writes and reads tables of results on Spark's workers: by Spark on this machine's paths, by pyarrow in a store.

The Hadoop that comes with a Spark may not know the store; every worker has pyarrow.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema as spark_schema
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.pipeline.locations import Location, StorePath, arrow_source, whole
from purgatory_async.pipeline.output import checkpoint_path, spark_path
from purgatory_async.pipeline.source.extent import DAMAGE_COLUMNS

__all__ = [
    "DAMAGE_SCHEMA",
    "RECORD_SCHEMA",
    "count_rows",
    "on_workers",
    "spark_reads",
    "spark_schema",
    "spark_writes",
]

RECORD_SCHEMA: Final = spark_schema(arrow_schema())
"""A journal's records: the columns of `FIELDS`, null where a kind has no such field."""

DAMAGE_SCHEMA: Final = spark_schema(DAMAGE_COLUMNS)
"""Lines that are not records: the file's name, the offset of the line's first byte, and the reason."""

Batches = Iterator[pa.RecordBatch]
Part = TypeVar("Part")


def on_workers(
    spark: SparkSession,
    parts: Sequence[Part],
    make: Callable[[Part], Iterable[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Make a table on Spark's workers: ``make`` the rows of each part in a task of its own."""

    def _make_some(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from make(parts[number])

    return spark.range(0, len(parts), 1, len(parts) or 1).mapInArrow(_make_some, schema)


def spark_writes(frame: DataFrame, table: Location) -> None:
    """Compute a table, and write it as Parquet to a new directory that Spark's workers see as this process does."""
    if isinstance(table, Path):
        frame.write.parquet(checkpoint_path(table))
    elif not frame.mapInArrow(_partition_writer(table), "part long").collect():
        with whole(table / "no-rows.parquet") as path:
            pq.write_table(to_arrow_schema(frame.schema).empty_table(), path)


def _partition_writer(table: StorePath) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def _write(batches: Iterable[pa.RecordBatch]) -> Batches:
        """Write a partition, unless it is empty; if Spark repeats it, the new object replaces the old one."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
        with (
            whole(table / f"part-{part:05d}.parquet") as path,
            pq.ParquetWriter(path, first.schema) as file,
        ):
            file.write_batch(first)
            for batch in batches:
                file.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"part": [part]})

    return _write


def spark_reads(spark: SparkSession, table: Location, schema: StructType) -> DataFrame:
    """Read a table of results, which is complete, from a directory that Spark's workers see as this process does."""
    if isinstance(table, Path):
        return spark.read.schema(schema).parquet(spark_path(table))
    return on_workers(spark, sorted(table.iterdir()), _read_part, schema)


def count_rows(table: Location) -> int:
    """How many rows a table of results has, by the ends of its files."""
    parts = (part for part in table.iterdir() if part.name.endswith(".parquet") and part.name[0] not in "._")
    return sum(pq.read_metadata(arrow_source(part)).num_rows for part in parts)


def _read_part(part: Location) -> Batches:
    with pq.ParquetFile(arrow_source(part)) as file:
        yield from file.iter_batches(use_threads=False)

"""Maps a journal on the workers that read it, in columns: no record becomes a Spark row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from purgatory_async.pipeline.schemas import spark_schema
from purgatory_async.pipeline.sources.extent import Extent
from purgatory_async.pipeline.sources.parquet_segments import read_group
from purgatory_async.pipeline.sources.pieces import Piece, records_in

__all__ = ["map_records"]

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of a Parquet file: what one task reads."""

    path: Path
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
            yield from (_Group(path, number) for number in range(pq.read_metadata(path).num_row_groups))


def _records(part: Piece | _Group, columns: Sequence[str]) -> Batches:
    if isinstance(part, Piece):
        return (batch.select(columns) for batch in records_in(part))
    return read_group(part.path, part.number, columns)

"""Operations as tables: the records of each put together, and the span of each node.

Run, node and id identify an operation; ``seq`` orders the records of a run and node. The first submission begins an
operation, the first outcome after it ends it, and a reschedule between the two moves its deadline. Any other record is
an anomaly: the journal lost a record, or an operation ended twice. Anomalies are listed, and no other figure counts
them.

Records are dealt into buckets, which workers pair in columns: sorting them as Spark rows takes several times as long.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from purgatory_async.pipeline.locations import Location, arrow_source, whole
from purgatory_async.pipeline.operations.between import ALWAYS, Between
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, deal, gathered
from purgatory_async.pipeline.operations.pairing import ANOMALIES, OPERATIONS, Pairing
from purgatory_async.pipeline.spark_tables import on_workers, spark_reads, spark_schema

OPERATION: Final = ("run_id", "node", "op_id")
"""The columns that identify an operation."""

# The other columns have almost no repeated values.
_REPEATED: Final = ["run_id", "node", "outcome", "keys.list.element"]


def dealt(records: DataFrame) -> DataFrame:
    """Deal records into buckets, as `map_records` with `deal` does where they are read."""
    wanted = records.where("kind in ('submit', 'reschedule', 'outcome')").select(*DEAL_READ)
    return wanted.mapInArrow(deal, spark_schema(DEALT))


def operations(buckets: DataFrame, between: Between = ALWAYS) -> DataFrame:
    """Find the outcome of each operation in a journal's dealt records, or in those within a range of time.

    One shuffle of its submissions and outcomes.

    Returns:
        The columns of `OPERATIONS`, a row for each operation; those from ``outcome`` on are null while it is pending.
        ``submit_ns`` and ``end_ns`` are ``mono_ns`` of the records, and replace a missing ``latency_ns`` or
        ``lateness_ns`` of an outcome.
    """
    return paired(buckets, Pairing.operations, OPERATIONS, between)


def anomalies(buckets: DataFrame, between: Between = ALWAYS) -> DataFrame:
    """List the records that belong to no operation, in the columns of `ANOMALIES`."""
    return paired(buckets, Pairing.anomalies, ANOMALIES, between)


def paired(
    buckets: DataFrame,
    result: Callable[[Pairing], pa.Table],
    schema: pa.Schema,
    between: Between = ALWAYS,
) -> DataFrame:
    """Pair the records of each bucket; ``result`` makes a table of this schema of it, on the worker that has it."""

    def tell(rows: pa.Table) -> pa.Table:
        """Pair a bucket."""
        return result(Pairing.of(*gathered(rows), rows["bucket"][0].as_py(), between))

    return buckets.groupBy("bucket").applyInArrow(tell, spark_schema(schema))


def write_operations(
    buckets: DataFrame,
    directory: Location,
    result: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
    between: Between = ALWAYS,
) -> pa.Table:
    """Find the outcome of each operation, as `operations`, but write them where they are found.

    Spark would take each operation out of its columns and put it back. If it repeats a bucket, the new file has the
    same rows and replaces the old one. The directory is new, and the workers must see it as this process does.

    Returns:
        The rows that ``result`` makes, in this schema, of the operations of each bucket.
    """
    if isinstance(directory, Path):
        directory.mkdir()
    with whole(directory / "no-rows.parquet") as path:
        pq.write_table(OPERATIONS.empty_table(), path)
    made = paired(buckets, lambda pairing: result(write_bucket(directory, pairing)), schema, between)
    return made.toArrow().cast(schema)


def read_operations(spark: SparkSession, directory: Location) -> DataFrame:
    """Read what `write_operations` has written."""
    return spark_reads(spark, directory, spark_schema(OPERATIONS))


def map_operations(
    spark: SparkSession,
    directory: Location,
    columns: Sequence[str],
    result: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
) -> DataFrame:
    """Map some columns of each file of `write_operations` on a worker: ``result`` makes a table in this schema."""

    def tell(part: Location) -> Iterator[pa.RecordBatch]:
        """Map a file."""
        with pq.ParquetFile(arrow_source(part)) as file:
            yield from result(file.read(list(columns), use_threads=False)).to_batches()

    parts = sorted(part for part in directory.iterdir() if part.name.startswith("part-"))
    return on_workers(spark, parts, tell, spark_schema(schema))


def write_bucket(directory: Location, pairing: Pairing) -> pa.Table:
    """Write a bucket's operations to a file named by its number, on a worker; returns them."""
    found = pairing.operations()
    if len(found):
        with whole(directory / f"part-{pairing.bucket:05d}.parquet") as path:
            pq.write_table(found, path, use_dictionary=_REPEATED)  # pyright: ignore[reportArgumentType]
    return found


def nodes(covered: DataFrame) -> DataFrame:
    """Survey the runs and nodes of a journal, of which `cover` has surveyed all parts.

    Returns:
        ``run_id, node, first_seq, last_seq, first_ns, last_ns, first_wall_ns, last_wall_ns, records, submits,
        reschedules, outcomes, signals, untimed, ranges, tick_ns, wheel_size``, a row for each. ``first_ns`` and
        ``last_ns`` are ``mono_ns``, ``untimed`` counts submissions without a timeout, ``ranges`` ranges of numbers in
        the parts, and the last two are null without a `Stats` record.
    """
    counts = ("records", "submits", "reschedules", "outcomes", "signals", "untimed")
    return covered.groupBy("run_id", "node").agg(
        *(sf.min(f"first_{what}").alias(f"first_{what}") for what in ("seq", "ns", "wall_ns")),
        *(sf.max(f"last_{what}").alias(f"last_{what}") for what in ("seq", "ns", "wall_ns")),
        *(sf.sum(name).alias(name) for name in counts),
        sf.count("first_seq").alias("ranges"),
        *(sf.max(name).alias(name) for name in ("tick_ns", "wheel_size")),
    )

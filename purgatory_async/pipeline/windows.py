"""Counts operations by key and time window, in rows that add up, and those of a stream's batches exactly once.

The record's wall clock decides its window, and windows begin at multiples of their width since 1970. So the counts do
not depend on the order of the records or on how they are batched. Latencies are kept as a KLL sketch: percentiles do
not add up, sketches do (Karnin, Lang, Liberty, "Optimal Quantile Approximation in Streams", 2016, as implemented in
Spark and Apache DataSketches).

A batch adds rows to the table of windows, in a file named by the batch's number. The checkpoint keeps the records that
a later batch may pair: operations that have not ended, and outcomes whose operation has not been seen. A batch is done
when the state after it has its final name. Killed before that, it is repeated from the state before it with the same
records, and replaces its file; killed after that, it is skipped.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.journal.schema import OutcomeWord
from purgatory_async.pipeline.operations.tables import OPERATION, dealt, operations
from purgatory_async.pipeline.output import spark_path, staged, sync
from purgatory_async.pipeline.source.extent import DAMAGE_COLUMNS
from purgatory_async.pipeline.spark_tables import DAMAGE_SCHEMA, RECORD_SCHEMA, spark_writes

__all__ = ["OUTCOMES", "WindowBatches", "add_up", "start_of", "steps", "windows"]

OUTCOMES: Final[tuple[str, ...]] = get_args(OutcomeWord)
"""The outcomes of an operation."""

_COUNTS: Final = ("submitted", *OUTCOMES)

_NO_ROWS: Final = "no-rows.parquet"
_TABLES: Final = {
    "windows": pa.schema(
        [
            ("window_start_ns", pa.int64()),
            ("key", pa.string()),
            *((word, pa.int64()) for word in ("submitted", *OUTCOMES)),
            ("latency_sketch", pa.binary()),
        ]
    ),
    "quarantine": DAMAGE_COLUMNS,
}


def steps(operations: DataFrame) -> DataFrame:
    """List the steps that windows count: submissions and outcomes.

    Args:
        operations: From `purgatory_async.pipeline.operations.tables.operations`.

    Returns:
        ``run_id, node, keys, seq, wall_ns, step, latency_ns``: one or two rows for each operation, with the ``seq``
        and ``wall_ns`` of the record; ``step`` is ``submitted`` or the outcome, ``latency_ns`` null unless completed.
    """
    record = "stack(2, {}, {}) as (seq, wall_ns, step, latency_ns)".format(
        "submit_seq, submit_wall_ns, 'submitted', null",
        "end_seq, end_wall_ns, outcome, if(outcome = 'completed', latency_ns, null)",
    )
    found = operations.selectExpr("run_id", "node", "array_distinct(keys) as keys", record)
    return found.where(sf.col("step").isin(*_COUNTS))


def windows(happened: DataFrame, width_ns: int) -> DataFrame:
    """Count steps by window and key.

    Args:
        happened: From `steps`; an operation counts under each of its keys.
        width_ns: Of a window, in nanoseconds; 1 or more.

    Returns:
        ``window_start_ns, key, submitted, completed, expired, cancelled, failed, closed, latency_sketch``, a row for
        each window and key with steps; the sketch is of the completed operations' latencies in nanoseconds, null if
        there are none.
    """
    counts = [sf.count(sf.when(sf.col("step") == word, 1)).alias(word) for word in _COUNTS]
    return (
        happened.select(
            start_of(sf.col("wall_ns"), width_ns).alias("window_start_ns"),
            sf.explode("keys").alias("key"),
            "step",
            "latency_ns",
        )
        .groupBy("window_start_ns", "key")
        .agg(*counts, sf.kll_sketch_agg_bigint("latency_ns").alias("latency_sketch"))
        .withColumn("latency_sketch", sf.when(sf.col("completed") > 0, sf.col("latency_sketch")))
    )


def add_up(table: DataFrame, width_ns: int) -> DataFrame:
    """Merge the rows of the same window and key.

    Args:
        table: From `windows`, or a union of several.
        width_ns: That of the table, or a multiple of it for coarser windows, in nanoseconds.

    Returns:
        The same columns; counts are summed and sketches merged.
    """
    counts = [sf.sum(word).alias(word) for word in _COUNTS]
    return (
        table.withColumn("window_start_ns", start_of(sf.col("window_start_ns"), width_ns))
        .groupBy("window_start_ns", "key")
        .agg(*counts, sf.kll_merge_agg_bigint("latency_sketch").alias("latency_sketch"))
        .withColumn("latency_sketch", sf.when(sf.col("completed") > 0, sf.col("latency_sketch")))
    )


def start_of(instant_ns: Column, width_ns: int) -> Column:
    """When the window of an instant begins, in nanoseconds since 1970."""
    # A remainder that is never negative, so that windows before 1970 are as wide as others.
    return instant_ns - sf.pmod(instant_ns, sf.lit(width_ns).cast("long"))


@dataclass(frozen=True, slots=True)
class WindowBatches:
    """Processes each batch; a callable for ``foreachBatch``.

    Attributes:
        out: Directory of ``windows`` and ``quarantine``.
        checkpoint: Directory of the state.
        window_ns: The windows' width.
    """

    out: Path
    checkpoint: Path
    window_ns: int

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Process a batch of the source's table ``all``, unless it is done; batches come in order."""
        before = self.last_batch()
        if batch <= before:
            return
        needed = rows.where(sf.col("kind").isin("submit", "outcome") | sf.col("reason").isNotNull()).persist()
        lives = operations(dealt(self._known(needed, before))).persist()
        try:
            self._publish(self._new_windows(lives, before), "windows", batch)
            damage = needed.where(sf.col("reason").isNotNull()).select(*DAMAGE_SCHEMA.names)
            if not damage.isEmpty():
                self._publish(damage, "quarantine", batch)
            with staged(self._state(batch)) as stage:
                spark_writes(self._open(needed, lives, before), stage.tables / "records")
        finally:
            lives.unpersist()
            needed.unpersist()
        for old in self._batches():
            if old < before:
                shutil.rmtree(self._state(old), ignore_errors=True)

    def lay_out(self) -> None:
        """Write files without rows, so that both tables can be read while they are empty."""
        for name, schema in _TABLES.items():
            directory = self.out / name
            directory.mkdir(exist_ok=True)
            if not (directory / _NO_ROWS).exists():
                unfinished = directory / f".{_NO_ROWS}"
                pq.write_table(schema.empty_table(), unfinished)
                unfinished.rename(directory / _NO_ROWS)

    def last_batch(self) -> int:
        """The number of the last completed batch; -1 for none."""
        return max(self._batches(), default=-1)

    def _batches(self) -> list[int]:
        """The batches whose state is kept."""
        directory = self.checkpoint / "state"
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return [int(name) for name in names if name.isdecimal()]

    def rows_since(self, batch: int) -> int:
        """How many rows of windows the batches after one have added."""
        files = (self.out / "windows").glob("batch-*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files if int(file.stem[6:]) > batch)

    def _known(self, new: DataFrame, before: int) -> DataFrame:
        """The records of a batch, and those that earlier batches left open."""
        records = new.where(sf.col("kind").isNotNull()).select(*RECORD_SCHEMA.names)
        return records if before < 0 else records.unionByName(self._left_open(records, before))

    def _left_open(self, like: DataFrame, before: int) -> DataFrame:
        path = self._state(before) / "records"
        return like.sparkSession.read.schema(RECORD_SCHEMA).parquet(spark_path(path))

    def _new_windows(self, lives: DataFrame, before: int) -> DataFrame:
        """Count the steps of this batch; an earlier batch has counted the submissions left open."""
        happened = steps(lives)
        if before >= 0:
            counted = self._left_open(lives, before).where(sf.col("kind") == "submit")
            record = ["run_id", "node", "seq"]
            happened = happened.join(counted.select(*record), on=record, how="left_anti")
        return windows(happened, self.window_ns)

    def _open(self, new: DataFrame, lives: DataFrame, before: int) -> DataFrame:
        """The records that a later batch needs: submissions without outcome, and outcomes without submission."""
        outcomes = self._known(new, before).where(sf.col("kind") == "outcome")
        strays = outcomes.join(lives.select(*OPERATION), on=list(OPERATION), how="left_anti")
        pending = lives.where(sf.col("outcome").isNull()).select(
            *OPERATION,
            sf.lit("submit").alias("kind"),
            sf.col("submit_seq").alias("seq"),
            sf.col("submit_ns").alias("mono_ns"),
            sf.col("submit_wall_ns").alias("wall_ns"),
            "keys",
            "needed",
            "timeout_ns",
        )
        return strays.unionByName(pending, allowMissingColumns=True)

    def _state(self, batch: int) -> Path:
        return self.checkpoint / "state" / f"{batch:09d}"

    def _publish(self, table: DataFrame, name: str, batch: int) -> None:
        """Write a table as one file, atomically."""
        scratch = self.out / f".{name}-{batch:09d}"
        shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
        spark_writes(table.repartition(1), scratch)
        final = self.out / name / f"batch-{batch:09d}.parquet"
        for part in scratch.glob("part-*.parquet"):
            if pq.read_metadata(part).num_rows:
                sync(part)
                part.rename(final)
                sync(final.parent)
        shutil.rmtree(scratch)

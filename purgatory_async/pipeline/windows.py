"""Counts operations by key and time window, in rows that add up; each batch of a stream counts once.

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
from purgatory_async.pipeline.locations import whole
from purgatory_async.pipeline.operations.tables import OPERATION, dealt, operations
from purgatory_async.pipeline.output import spark_path, staged, sync
from purgatory_async.pipeline.source.extent import DAMAGE_COLUMNS
from purgatory_async.pipeline.spark_tables import DAMAGE_SCHEMA, RECORD_SCHEMA, spark_writes

OUTCOMES: Final[tuple[str, ...]] = get_args(OutcomeWord)
"""The outcomes of an operation."""

_COUNTS: Final = ("submitted", *OUTCOMES)
_RECORD: Final = ("run_id", "node", "seq")  # identify a record

_TABLES: Final = {
    "windows": pa.schema(
        [
            ("window_start_ns", pa.int64()),
            ("key", pa.string()),
            *(pa.field(word, pa.int64(), nullable=False) for word in _COUNTS),  # as Spark writes them
            ("latency_sketch", pa.binary()),
        ]
    ),
    "quarantine": DAMAGE_COLUMNS,
}


def steps(operations: DataFrame) -> DataFrame:
    """List the steps of operations that windows count: submissions and outcomes.

    Returns:
        ``run_id, node, keys, seq, wall_ns, step, latency_ns``: one or two rows for each operation, with the ``seq``
        and ``wall_ns`` of the record; ``step`` is ``submitted`` or the outcome, ``latency_ns`` null unless completed.
    """
    records = """stack(2,
        submit_seq, submit_wall_ns, 'submitted', null,
        end_seq, end_wall_ns, outcome, if(outcome = 'completed', latency_ns, null)
    ) as (seq, wall_ns, step, latency_ns)"""
    found = operations.selectExpr("run_id", "node", "array_distinct(keys) as keys", records)
    return found.where(sf.col("step").isin(*_COUNTS))


def windows(happened: DataFrame, width_ns: int) -> DataFrame:
    """Count `steps` by window, of 1 ns or more, and key; an operation counts under each of its keys.

    Returns:
        ``window_start_ns, key, submitted, completed, expired, cancelled, failed, closed, latency_sketch``, a row for
        each window and key with steps; the sketch is of the completed operations' latencies in nanoseconds, null if
        there are none.
    """
    start = start_of(sf.col("wall_ns"), width_ns).alias("window_start_ns")
    counts = [sf.count_if(sf.col("step") == word).alias(word) for word in _COUNTS]
    sketch = sf.expr("if(count(latency_ns) > 0, kll_sketch_agg_bigint(latency_ns), null) as latency_sketch")
    watched = happened.select(start, sf.explode("keys").alias("key"), "step", "latency_ns")
    return watched.groupBy("window_start_ns", "key").agg(*counts, sketch)


def add_up(table: DataFrame, width_ns: int) -> DataFrame:
    """Merge the rows of the same window and key.

    Args:
        table: From `windows`, or a union of several.
        width_ns: The width of the table's windows, or a multiple of it for coarser ones, in nanoseconds.

    Returns:
        The same columns; counts are summed and sketches merged.
    """
    start = start_of(sf.col("window_start_ns"), width_ns).alias("window_start_ns")
    sums = [sf.sum(word).alias(word) for word in _COUNTS]
    sketch = sf.expr("if(sum(completed) > 0, kll_merge_agg_bigint(latency_sketch), null) as latency_sketch")
    return table.groupBy(start, "key").agg(*sums, sketch)


def start_of(instant_ns: Column, width_ns: int) -> Column:
    """When the window of an instant begins, in nanoseconds since 1970."""
    # A remainder that is never negative, so that windows before 1970 are as wide as others.
    return instant_ns - sf.pmod(instant_ns, sf.lit(width_ns).cast("long"))


@dataclass(frozen=True, slots=True)
class WindowBatches:
    """Processes each batch; a callable for ``foreachBatch``."""

    out: Path  # directory of ``windows`` and ``quarantine``
    checkpoint: Path  # directory of the state
    window_ns: int  # their width

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Process a batch of the source's table ``all``, unless it is done; batches come in order."""
        before = self.last_batch()
        if batch <= before:
            return
        needed = rows.where("kind in ('submit', 'outcome') or reason is not null").persist()
        records = needed.where("kind is not null").select(*RECORD_SCHEMA.names)
        left_open = records.limit(0)
        if before >= 0:
            known = spark_path(self._state(before) / "records")
            left_open = rows.sparkSession.read.schema(RECORD_SCHEMA).parquet(known)
        records = records.unionByName(left_open)
        lives = operations(dealt(records)).persist()
        try:
            counted = left_open.where("kind = 'submit'").select(*_RECORD)  # by an earlier batch
            happened = steps(lives).join(counted, on=list(_RECORD), how="left_anti")
            self._publish(windows(happened, self.window_ns), "windows", batch)
            damage = needed.where("reason is not null").select(*DAMAGE_SCHEMA.names)
            if not damage.isEmpty():
                self._publish(damage, "quarantine", batch)
            with staged(self._state(batch)) as stage:
                spark_writes(_unpaired(records, lives), stage.tables / "records")
        finally:
            lives.unpersist()
            needed.unpersist()
        for old in self._batches():
            if old < before:
                shutil.rmtree(self._state(old), ignore_errors=True)

    def lay_out(self) -> None:
        """Write files without rows, so that both tables can be read while they are empty."""
        for name, schema in _TABLES.items():
            (self.out / name).mkdir(exist_ok=True)
            with whole(self.out / name / "no-rows.parquet") as path:
                pq.write_table(schema.empty_table(), path)

    def last_batch(self) -> int:
        """The number of the last completed batch; -1 for none."""
        return max(self._batches(), default=-1)

    def _batches(self) -> list[int]:
        """The batches whose state is kept."""
        names = (path.name for path in (self.checkpoint / "state").glob("*"))
        return [int(name) for name in names if name.isdecimal()]

    def rows_since(self, batch: int) -> int:
        """How many rows of windows the batches after one have added."""
        files = (self.out / "windows").glob("batch-*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files if int(file.stem[6:]) > batch)

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


def _unpaired(records: DataFrame, lives: DataFrame) -> DataFrame:
    """The records that a later batch needs: submissions without outcome, and outcomes without submission."""
    outcomes = records.where("kind = 'outcome'")
    strays = outcomes.join(lives.select(*OPERATION), on=list(OPERATION), how="left_anti")
    submission = (
        "submit_seq as seq",
        "submit_ns as mono_ns",
        "submit_wall_ns as wall_ns",
        "'submit' as kind",
    )
    pending = lives.where("outcome is null").selectExpr(
        *OPERATION, *submission, "keys", "needed", "timeout_ns"
    )
    return strays.unionByName(pending, allowMissingColumns=True)

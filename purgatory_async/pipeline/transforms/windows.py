"""Counts operations by key and time window, in rows that add up.

The record's wall clock decides its window, and windows begin at multiples of their width since 1970. So the counts do
not depend on the order of the records or on how they are batched. Latencies are kept as a KLL sketch: percentiles do
not add up, sketches do (Karnin, Lang, Liberty, "Optimal Quantile Approximation in Streams", 2016, as implemented in
Spark and Apache DataSketches).
"""

from typing import Final, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.journal.schema import OutcomeWord

__all__ = ["OUTCOMES", "add_up", "steps", "windows"]

OUTCOMES: Final[tuple[str, ...]] = get_args(OutcomeWord)
"""The outcomes of an operation."""

_COUNTS: Final = ("submitted", *OUTCOMES)


def steps(operations: DataFrame) -> DataFrame:
    """List the steps that windows count: submissions and outcomes.

    Args:
        operations: From `purgatory_async.pipeline.transforms.operations.operations`.

    Returns:
        ``run_id, node, seq, wall_ns, keys, step, latency_ns``: one or two rows for each operation, with the ``seq``
        and ``wall_ns`` of the record; ``step`` is ``submitted`` or the outcome, ``latency_ns`` null unless completed.
    """
    completed_in_ns = sf.when(sf.col("outcome") == "completed", sf.col("latency_ns"))
    submitted = _step("submit_seq", "submit_wall_ns", sf.lit("submitted"), sf.lit(None).cast("long"))
    ended = _step("end_seq", "end_wall_ns", sf.col("outcome"), completed_in_ns)
    both = operations.select("run_id", "node", "keys", sf.explode(sf.array(submitted, ended)).alias("record"))
    known = both.where(sf.col("record.step").isin(*_COUNTS))
    return known.select(
        "run_id",
        "node",
        "record.seq",
        "record.wall_ns",
        sf.array_distinct("keys").alias("keys"),
        "record.step",
        "record.latency_ns",
    )


def _step(seq: str, wall_ns: str, word: Column, latency_ns: Column) -> Column:
    return sf.struct(
        sf.col(seq).alias("seq"),
        sf.col(wall_ns).alias("wall_ns"),
        word.alias("step"),
        latency_ns.alias("latency_ns"),
    )


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
            _start(sf.col("wall_ns"), width_ns), sf.explode("keys").alias("key"), "step", "latency_ns"
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
        table.withColumn("window_start_ns", _start(sf.col("window_start_ns"), width_ns))
        .groupBy("window_start_ns", "key")
        .agg(*counts, sf.kll_merge_agg_bigint("latency_sketch").alias("latency_sketch"))
        .withColumn("latency_sketch", sf.when(sf.col("completed") > 0, sf.col("latency_sketch")))
    )


def _start(instant_ns: Column, width_ns: int) -> Column:
    # A remainder that is never negative, so that windows before 1970 are as wide as others.
    return (instant_ns - sf.pmod(instant_ns, sf.lit(width_ns).cast("long"))).alias("window_start_ns")

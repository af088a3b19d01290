"""Sums a journal's operations: by outcome, by duration, by time and by key."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.report.findings import OUTCOMES
from purgatory_async.pipeline.windows import start_of, steps

__all__ = ["STEPS", "by_key", "by_prefix", "durations", "histogram", "timeline", "totals"]

STEPS: Final = 8
"""Of a histogram, for each factor of two."""


def totals(operations: DataFrame, nodes: DataFrame) -> DataFrame:
    """Sum operations by outcome.

    Args:
        operations: From `purgatory_async.pipeline.operations.tables.operations`.
        nodes: From `purgatory_async.pipeline.operations.tables.nodes`, of the same journal.

    Returns:
        ``outcome, operations, held_ns``: the last is the sum of the times pending, up to a node's last record.
    """
    until = operations.join(sf.broadcast(nodes.select("run_id", "node", "last_ns")), ["run_id", "node"])
    # Ten million operations that are pending for an hour exceed 64 bits.
    held_ns = (sf.coalesce("end_ns", "last_ns") - sf.col("submit_ns")).cast("decimal(20)")
    outcome = sf.coalesce("outcome", sf.lit("pending")).alias("outcome")
    return until.groupBy(outcome).agg(sf.count("*").alias("operations"), sf.sum(held_ns).alias("held_ns"))


def durations(operations: DataFrame) -> DataFrame:
    """List ``name, value``: the latency of completed operations and the lateness of expired ones, in nanoseconds."""
    outcome = sf.col("outcome")
    value = sf.when(outcome == "completed", sf.col("latency_ns")).when(
        outcome == "expired", sf.col("lateness_ns")
    )
    return operations.select(outcome.alias("name"), value.alias("value")).where("value is not null")


def histogram(durations: DataFrame) -> DataFrame:
    """Count durations on a logarithmic scale.

    Args:
        durations: ``name, value``; what is below a nanosecond counts as one.

    Returns:
        ``name, step, count, least, greatest``: step *i* starts at ``2 ** (i / STEPS)`` nanoseconds, and the last two
        are the extreme values in it.
    """
    step = sf.floor(sf.log2(sf.greatest("value", sf.lit(1))) * STEPS).alias("step")
    extremes = sf.min("value").alias("least"), sf.max("value").alias("greatest")
    return durations.groupBy("name", step).agg(sf.count("*").alias("count"), *extremes)


def timeline(operations: DataFrame, width_ns: int) -> DataFrame:
    """Count submissions and outcomes by time.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch of ``width_ns``
        that is not empty.
    """
    start = start_of(sf.col("wall_ns"), width_ns).alias("start_ns")
    return steps(operations).groupBy(start).pivot("step", ["submitted", *OUTCOMES[:-1]]).count().fillna(0)


def by_key(operations: DataFrame, signals: DataFrame) -> DataFrame:
    """Count operations and signals by key; an operation counts under each of its keys.

    Args:
        operations: From `purgatory_async.pipeline.operations.tables.operations`.
        signals: ``key``, a row for each signal.

    Returns:
        ``key, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each key.
    """
    watched = operations.select(
        sf.explode("keys").alias("key"), sf.coalesce("outcome", sf.lit("pending")).alias("what")
    )
    both = watched.unionByName(signals.select("key", sf.lit("signals").alias("what")))
    counts = both.groupBy("key").pivot("what", [*OUTCOMES, "signals"]).count().fillna(0)
    return counts.select("key", sf.expr(" + ".join(OUTCOMES)).alias("submitted"), *OUTCOMES, "signals")


def by_prefix(keys: DataFrame) -> DataFrame:
    """Sum keys by prefix, the part before the first ``:`` or ``/``; null for keys without such a sign.

    Args:
        keys: From `by_key`.

    Returns:
        ``prefix, keys, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each
        prefix; an operation counts once for each of its keys with it.
    """
    prefix = sf.when(sf.col("key").rlike("[:/]"), sf.split("key", "[:/]", 2)[0]).alias("prefix")
    sums = (sf.sum(name).alias(name) for name in ("submitted", *OUTCOMES, "signals"))
    return keys.groupBy(prefix).agg(sf.count("*").alias("keys"), *sums)

"""Sums the tallies of a journal's operations: by outcome, by duration, by time and by key."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.report.findings import OUTCOMES

__all__ = ["by_key", "durations", "histogram", "timeline", "totals"]

_ENDS: Final = OUTCOMES[:-1]


def timeline(tallies: DataFrame) -> DataFrame:
    """Sum submissions and outcomes by time.

    Args:
        tallies: Of parts, from `purgatory_async.pipeline.report.tallies.Tally`.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch that is not
        empty.
    """
    happened = tallies.where("tally = 'time'").groupBy(sf.col("at").alias("start_ns"))
    return happened.agg(
        *(
            sf.coalesce(sf.sum(sf.when(sf.col("name") == what, sf.col("count"))), sf.lit(0)).alias(what)
            for what in ("submitted", *_ENDS)
        )
    )


def totals(tallies: DataFrame) -> DataFrame:
    """Sum operations by node and outcome.

    Args:
        tallies: Of parts, from `purgatory_async.pipeline.report.tallies.Tally`.

    Returns:
        ``run_id, node, outcome, operations, held_s, held_ns``. The outcome is null for pending operations. The last two
        columns are the sum of the times pending, in whole seconds and the remaining nanoseconds, so that neither
        overflows; pending operations count as if they had ended at instant 0.
    """
    found = tallies.where("tally = 'total'").groupBy("run_id", "node", sf.col("name").alias("outcome"))
    return found.agg(
        sf.sum("count").alias("operations"),
        sf.sum("first").alias("held_s"),
        sf.sum("second").alias("held_ns"),
    )


def histogram(tallies: DataFrame) -> DataFrame:
    """Sum durations on a logarithmic scale.

    Args:
        tallies: As for `totals`.

    Returns:
        ``name, step, count, least, greatest``: step *i* starts at ``2 ** (i / STEPS)`` nanoseconds, and the last two
        are the extreme values in it.
    """
    found = tallies.where("tally = 'step'").groupBy("name", sf.col("at").alias("step"))
    return found.agg(
        sf.sum("count").alias("count"), sf.min("first").alias("least"), sf.max("second").alias("greatest")
    )


def durations(operations: DataFrame) -> DataFrame:
    """The latency of completed operations and the lateness of expired ones.

    Args:
        operations: From `purgatory_async.pipeline.operations.tables.operations`.

    Returns:
        ``name, value``: the outcome, and nanoseconds.
    """
    outcome = sf.col("outcome")
    value = sf.when(outcome == "completed", sf.col("latency_ns")).when(
        outcome == "expired", sf.col("lateness_ns")
    )
    found = operations.select(outcome.alias("name"), value.alias("value"))
    return found.where(sf.col("value").isNotNull())


def by_key(tallies: DataFrame, signalled: DataFrame) -> DataFrame:
    """Sum operations and signals by key; an operation counts under each of its keys.

    Args:
        tallies: Of parts, from `purgatory_async.pipeline.report.tallies.Tally`.
        signalled: Likewise, of signals.

    Returns:
        ``key, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each key.
    """
    watched = tallies.where("tally = 'key'").select("key", sf.col("name").alias("what"), "count")
    both = watched.unionByName(signalled.select("key", sf.lit("signal").alias("what"), "count"))
    what = sf.col("what")

    def counted(name: str, which: Column) -> Column:
        """The sum of some counts; 0 for none."""
        return sf.coalesce(sf.sum(sf.when(which, sf.col("count"))), sf.lit(0)).alias(name)

    return both.groupBy("key").agg(
        counted("submitted", what != "signal"),
        *(counted(end, what == end) for end in (*_ENDS, "pending")),
        counted("signals", what == "signal"),
    )

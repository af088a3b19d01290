"""Totals of outcomes and durations."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["durations", "histogram", "totals"]


def totals(tallies: DataFrame) -> DataFrame:
    """Sum operations by node and outcome.

    Args:
        tallies: Of parts, from `purgatory_async.pipeline.kernels.tallies.Tally`.

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
        operations: From `purgatory_async.pipeline.transforms.operations.operations`.

    Returns:
        ``name, value``: the outcome, and nanoseconds.
    """
    outcome = sf.col("outcome")
    value = sf.when(outcome == "completed", sf.col("latency_ns")).when(
        outcome == "expired", sf.col("lateness_ns")
    )
    found = operations.select(outcome.alias("name"), value.alias("value"))
    return found.where(sf.col("value").isNotNull())

"""How operations ended and how long they took."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["durations", "histogram", "totals"]


def totals(tallies: DataFrame) -> DataFrame:
    """Add up operations by node and outcome.

    Args:
        tallies: Of parts, as `purgatory_async.pipeline.kernels.tallies.Tally` makes them.

    Returns:
        ``run_id, node, outcome, operations, held_s, held_ns``. The outcome is null for those that are pending. Of the
        rest the last two columns are how long they were pending, all in all, in whole seconds and what is over in
        nanoseconds, so that neither overflows; of the pending, as if they had ended at instant 0.
    """
    found = tallies.where("tally = 'total'").groupBy("run_id", "node", sf.col("name").alias("outcome"))
    return found.agg(
        sf.sum("count").alias("operations"),
        sf.sum("first").alias("held_s"),
        sf.sum("second").alias("held_ns"),
    )


def histogram(tallies: DataFrame) -> DataFrame:
    """Add up durations on a scale of logarithms.

    Args:
        tallies: As for `totals`.

    Returns:
        ``name, step, count, least, greatest``: step *i* is from ``2 ** (i / STEPS)`` nanoseconds to the next; and the
        extreme values in it.
    """
    found = tallies.where("tally = 'step'").groupBy("name", sf.col("at").alias("step"))
    return found.agg(
        sf.sum("count").alias("count"), sf.min("first").alias("least"), sf.max("second").alias("greatest")
    )


def durations(operations: DataFrame) -> DataFrame:
    """Measure completed operations by their latency, and expired ones by their lateness.

    Args:
        operations: As `purgatory_async.pipeline.transforms.operations.operations` gives them.

    Returns:
        ``name, value``: the outcome, and nanoseconds.
    """
    outcome = sf.col("outcome")
    value = sf.when(outcome == "completed", sf.col("latency_ns")).when(
        outcome == "expired", sf.col("lateness_ns")
    )
    found = operations.select(outcome.alias("name"), value.alias("value"))
    return found.where(sf.col("value").isNotNull())

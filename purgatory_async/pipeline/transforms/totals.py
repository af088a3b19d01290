"""How operations ended and how long they took."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["STEPS", "durations", "histogram", "totals"]

_NS: Final = 1_000_000_000

STEPS: Final = 8
"""Of a histogram, for each factor of two."""


def totals(operations: DataFrame) -> DataFrame:
    """Add up operations by node and outcome.

    Args:
        operations: As `purgatory_async.pipeline.transforms.operations.operations` gives them.

    Returns:
        ``run_id, node, outcome, operations, held_s, held_ns``. The outcome is null for those that are pending. Of the
        rest the last two columns are how long they were pending, all in all, in whole seconds and what is over in
        nanoseconds, so that neither overflows; of the pending, as if they had ended at instant 0.
    """
    held = "coalesce(end_ns, 0) - submit_ns"
    return operations.groupBy("run_id", "node", "outcome").agg(
        sf.count("*").alias("operations"),
        sf.sum(sf.expr(f"({held}) div {_NS}")).alias("held_s"),
        sf.sum(sf.expr(f"({held}) % {_NS}")).alias("held_ns"),
    )


def durations(operations: DataFrame) -> DataFrame:
    """Measure completed operations by their latency, and expired ones by their lateness.

    Returns:
        ``name, value``: the outcome, and nanoseconds.
    """
    outcome = sf.col("outcome")
    value = sf.when(outcome == "completed", sf.col("latency_ns")).when(
        outcome == "expired", sf.col("lateness_ns")
    )
    found = operations.select(outcome.alias("name"), value.alias("value"))
    return found.where(sf.col("value").isNotNull())


def histogram(durations: DataFrame) -> DataFrame:
    """Count durations on a scale of logarithms; what is below a nanosecond counts as one.

    Args:
        durations: ``name, value``.

    Returns:
        ``name, step, count, least, greatest``: step *i* is from ``2 ** (i / STEPS)`` nanoseconds to the next; and the
        extreme values in it.
    """
    step = sf.floor(sf.log2(sf.greatest("value", sf.lit(1))) * STEPS).cast("int").alias("step")
    return durations.groupBy("name", step).agg(
        sf.count("*").alias("count"), sf.min("value").alias("least"), sf.max("value").alias("greatest")
    )

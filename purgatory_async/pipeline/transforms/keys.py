"""Which keys are busy: what was waited for on each, and how often it was signalled."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.transforms.timeline import ENDS

__all__ = ["by_key"]


def by_key(operations: DataFrame, signals: DataFrame) -> DataFrame:
    """Count operations and signals by key; an operation counts under each of its keys.

    Args:
        operations: As `purgatory_async.pipeline.transforms.operations.operations` gives them.
        signals: The records of that kind.

    Returns:
        ``key, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each key.
    """
    watched = operations.select(
        sf.explode("keys").alias("key"), sf.coalesce("outcome", sf.lit("pending")).alias("what")
    )
    signalled = signals.select("key", sf.lit("signal").alias("what"))
    what = sf.col("what")
    return (
        watched.unionByName(signalled)
        .groupBy("key")
        .agg(
            sf.count_if(what != "signal").alias("submitted"),
            *(sf.count_if(what == end).alias(end) for end in (*ENDS, "pending")),
            sf.count_if(what == "signal").alias("signals"),
        )
    )

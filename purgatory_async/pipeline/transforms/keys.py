"""Counts operations and signals by key."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.transforms.timeline import ENDS

__all__ = ["by_key"]


def by_key(tallies: DataFrame, signalled: DataFrame) -> DataFrame:
    """Sum operations and signals by key; an operation counts under each of its keys.

    Args:
        tallies: Of parts, from `purgatory_async.pipeline.kernels.tallies.Tally`.
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
        *(counted(end, what == end) for end in (*ENDS, "pending")),
        counted("signals", what == "signal"),
    )

"""Which keys are busy: what was waited for on each, and how often it was signalled."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.transforms.timeline import ENDS

__all__ = ["by_key"]


def by_key(tallies: DataFrame, signalled: DataFrame) -> DataFrame:
    """Add up operations and signals by key; an operation counts under each of its keys.

    Args:
        tallies: Of parts, as `purgatory_async.pipeline.kernels.tallies.Tally` makes them.
        signalled: Likewise, of signals.

    Returns:
        ``key, submitted, completed, expired, cancelled, failed, closed, pending, signals``, a row for each key.
    """
    watched = tallies.where("tally = 'key'").select("key", sf.col("name").alias("what"), "count")
    both = watched.unionByName(signalled.select("key", sf.lit("signal").alias("what"), "count"))
    what = sf.col("what")

    def counted(name: str, which: Column) -> Column:
        """How many of some there are; 0 if there are none."""
        return sf.coalesce(sf.sum(sf.when(which, sf.col("count"))), sf.lit(0)).alias(name)

    return both.groupBy("key").agg(
        counted("submitted", what != "signal"),
        *(counted(end, what == end) for end in (*ENDS, "pending")),
        counted("signals", what == "signal"),
    )

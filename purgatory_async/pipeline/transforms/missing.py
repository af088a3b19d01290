"""Finds the records that a journal lost, by the gaps in their numbers.

Sorting all numbers of a node would sort the whole journal. So each reader of a part reports ranges without gaps, which
are few, and only those are sorted.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["missing"]


def missing(covered: DataFrame) -> DataFrame:
    """Find the missing numbers between the first and the last record of each run and node.

    Args:
        covered: From `purgatory_async.pipeline.kernels.coverage.cover`, of all parts of a journal.

    Returns:
        ``run_id, node, first, last``, a row for each maximal missing range.
    """
    ranges = covered.where(sf.col("first_seq").isNotNull())
    earlier = (
        Window.partitionBy("run_id", "node").orderBy("first_seq").rowsBetween(Window.unboundedPreceding, -1)
    )
    # The greatest so far, because ranges nest where a number exists twice.
    before = sf.max("last_seq").over(earlier)
    return (
        ranges.withColumn("before", before)
        .where(sf.col("first_seq") > sf.col("before") + 1)
        .select(
            "run_id", "node", (sf.col("before") + 1).alias("first"), (sf.col("first_seq") - 1).alias("last")
        )
    )

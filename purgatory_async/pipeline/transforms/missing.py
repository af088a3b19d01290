"""Which records a journal lost, by the gaps in their numbers.

To put all numbers of a node next to each other would be a sort of the whole journal. So who reads a part of it tells
ranges without gaps, which are few, and only those are put next to each other.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["missing"]


def missing(covered: DataFrame) -> DataFrame:
    """Find the numbers between the first and the last of each run and node that no record has.

    Args:
        covered: What `purgatory_async.pipeline.kernels.coverage.cover` found in the parts of a journal.

    Returns:
        ``run_id, node, first, last``, a row for each longest range that is missing.
    """
    ranges = covered.where(sf.col("first_seq").isNotNull())
    earlier = (
        Window.partitionBy("run_id", "node").orderBy("first_seq").rowsBetween(Window.unboundedPreceding, -1)
    )
    # The greatest, because ranges lie within each other where a number is there twice.
    before = sf.max("last_seq").over(earlier)
    return (
        ranges.withColumn("before", before)
        .where(sf.col("first_seq") > sf.col("before") + 1)
        .select(
            "run_id", "node", (sf.col("before") + 1).alias("first"), (sf.col("first_seq") - 1).alias("last")
        )
    )

"""Counts operations submitted and ended in each stretch of time."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["ENDS", "timeline"]

ENDS: Final = ("completed", "expired", "cancelled", "failed", "closed")
"""The outcomes of operations."""


def timeline(tallies: DataFrame) -> DataFrame:
    """Sum submissions and outcomes by time.

    Args:
        tallies: Of parts, from `purgatory_async.pipeline.kernels.tallies.Tally`.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch that is not
        empty.
    """
    happened = tallies.where("tally = 'time'").groupBy(sf.col("at").alias("start_ns"))
    return happened.agg(
        *(
            sf.coalesce(sf.sum(sf.when(sf.col("name") == what, sf.col("count"))), sf.lit(0)).alias(what)
            for what in ("submitted", *ENDS)
        )
    )

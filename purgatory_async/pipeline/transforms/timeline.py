"""What happened when: how many began and ended in each stretch of time."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["ENDS", "timeline"]

ENDS: Final = ("completed", "expired", "cancelled", "failed", "closed")
"""How operations end."""


def timeline(tallies: DataFrame) -> DataFrame:
    """Add up submissions and ends by time.

    Args:
        tallies: Of parts, as `purgatory_async.pipeline.kernels.tallies.Tally` makes them.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch in which anything
        happened.
    """
    happened = tallies.where("tally = 'time'").groupBy(sf.col("at").alias("start_ns"))
    return happened.agg(
        *(
            sf.coalesce(sf.sum(sf.when(sf.col("name") == what, sf.col("count"))), sf.lit(0)).alias(what)
            for what in ("submitted", *ENDS)
        )
    )

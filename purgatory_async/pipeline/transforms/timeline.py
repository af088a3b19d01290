"""What happened when: how many began and ended in each stretch of time."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["ENDS", "timeline"]

ENDS: Final = ("completed", "expired", "cancelled", "failed", "closed")
"""How operations end."""


def timeline(operations: DataFrame, width_ns: int) -> DataFrame:
    """Count submissions and ends by time.

    Args:
        operations: As `purgatory_async.pipeline.transforms.operations.operations` gives them.
        width_ns: Of a stretch; stretches begin at its multiples since 1970.

    Returns:
        ``start_ns, submitted, completed, expired, cancelled, failed, closed``, a row for each stretch in which anything
        happened.
    """
    submits = operations.select(sf.col("submit_wall_ns").alias("at_ns"), sf.lit("submitted").alias("what"))
    ends = operations.where(sf.col("outcome").isNotNull()).select(
        sf.col("end_wall_ns").alias("at_ns"), sf.col("outcome").alias("what")
    )
    start = sf.expr(f"at_ns - pmod(at_ns, {width_ns}L)").alias("start_ns")
    # First by what happened, which is a plain count; then side by side, of which there is little.
    counts = submits.unionByName(ends).groupBy(start, "what").count()
    return counts.groupBy("start_ns").agg(
        *(
            sf.coalesce(sf.sum(sf.when(sf.col("what") == what, sf.col("count"))), sf.lit(0)).alias(what)
            for what in ("submitted", *ENDS)
        )
    )

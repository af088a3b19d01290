"""What a journal covers: each run and node, from when to when, and how many records of each kind."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["nodes"]


def nodes(records: DataFrame) -> DataFrame:
    """Survey the runs and nodes of a journal.

    Args:
        records: Of the journal.

    Returns:
        ``run_id, node, first_seq, last_seq, first_ns, last_ns, first_wall_ns, last_wall_ns, records,
        submits, outcomes, signals, untimed, tick_ns, wheel_size``, a row for each. ``first_ns`` and ``last_ns`` are
        ``mono_ns``, ``untimed`` is how many were submitted without a timeout, and the last two are null if no record
        tells.
    """
    return records.groupBy("run_id", "node").agg(
        sf.min("seq").alias("first_seq"),
        sf.max("seq").alias("last_seq"),
        sf.min("mono_ns").alias("first_ns"),
        sf.max("mono_ns").alias("last_ns"),
        sf.min("wall_ns").alias("first_wall_ns"),
        sf.max("wall_ns").alias("last_wall_ns"),
        sf.count("*").alias("records"),
        *(sf.count_if(sf.col("kind") == kind).alias(f"{kind}s") for kind in ("submit", "outcome", "signal")),
        sf.count_if((sf.col("kind") == "submit") & sf.col("timeout_ns").isNull()).alias("untimed"),
        sf.max("tick_ns").alias("tick_ns"),
        sf.max("wheel_size").alias("wheel_size"),
    )

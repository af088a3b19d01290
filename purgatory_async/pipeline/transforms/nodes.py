"""Surveys a journal: time span and number of records of each run and node."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

__all__ = ["nodes"]


def nodes(covered: DataFrame) -> DataFrame:
    """Survey the runs and nodes of a journal.

    Args:
        covered: From `purgatory_async.pipeline.kernels.coverage.cover`, of all its parts.

    Returns:
        ``run_id, node, first_seq, last_seq, first_ns, last_ns, first_wall_ns, last_wall_ns, records,
        submits, outcomes, signals, untimed, tick_ns, wheel_size``, a row for each. ``first_ns`` and ``last_ns`` are
        ``mono_ns``, ``untimed`` counts submissions without a timeout, and the last two are null without a `Stats`
        record.
    """
    counts = ("records", "submits", "outcomes", "signals", "untimed")
    return covered.groupBy("run_id", "node").agg(
        *(sf.min(f"first_{what}").alias(f"first_{what}") for what in ("seq", "ns", "wall_ns")),
        *(sf.max(f"last_{what}").alias(f"last_{what}") for what in ("seq", "ns", "wall_ns")),
        *(sf.sum(name).alias(name) for name in counts),
        *(sf.max(name).alias(name) for name in ("tick_ns", "wheel_size")),
    )

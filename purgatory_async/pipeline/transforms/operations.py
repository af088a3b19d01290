"""The life of each operation, put together from its records.

An operation is a run's, a node's and an id's; within a run and node ``seq`` is the order of things. Its first
submission begins it and the first outcome after that ends it. What is over and above that is an anomaly: it says
that a journal lost a record, or that something ended twice. It is listed, and counted in no other figure.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["OPERATION", "anomalies", "operations"]

OPERATION: Final = ("run_id", "node", "op_id")
"""The columns that name an operation."""

_END: Final = ("seq", "mono_ns", "wall_ns", "outcome", "latency_ns", "lateness_ns", "checks", "inserts")


def operations(records: DataFrame) -> DataFrame:
    """Find for each submitted operation how it ended.

    Args:
        records: Of a journal, with the columns of `purgatory_async.journal.schema.FIELDS`.

    Returns:
        ``run_id, node, op_id, submit_seq, submit_ns, submit_wall_ns, keys, needed, timeout_ns, outcome, end_seq,
        end_ns, end_wall_ns, latency_ns, lateness_ns, checks, inserts``, a row for each operation; the columns
        from ``outcome`` on are null while it is pending. ``submit_ns`` and ``end_ns`` are ``mono_ns`` of the
        records, and stand in for a ``latency_ns`` or ``lateness_ns`` that an outcome does not have.

    One shuffle and one sort of the submissions and outcomes.
    """
    lives = _lives(records).where(_is("submit") & (sf.col("submits") == 1))
    expired = sf.col("end.outcome") == "expired"
    late_ns = sf.col("end.mono_ns") - sf.col("mono_ns") - sf.col("timeout_ns")
    return lives.select(
        *OPERATION,
        sf.col("seq").alias("submit_seq"),
        sf.col("mono_ns").alias("submit_ns"),
        sf.col("wall_ns").alias("submit_wall_ns"),
        "keys",
        "needed",
        "timeout_ns",
        "end.outcome",
        sf.col("end.seq").alias("end_seq"),
        sf.col("end.mono_ns").alias("end_ns"),
        sf.col("end.wall_ns").alias("end_wall_ns"),
        sf.coalesce("end.latency_ns", sf.col("end.mono_ns") - sf.col("mono_ns")).alias("latency_ns"),
        sf.coalesce("end.lateness_ns", sf.when(expired, late_ns)).alias("lateness_ns"),
        "end.checks",
        "end.inserts",
    )


def anomalies(records: DataFrame) -> DataFrame:
    """List the records that belong to no life.

    Args:
        records: As for `operations`.

    Returns:
        ``run_id, node, seq, kind, op_id, outcome, wall_ns, mono_ns, reason``, a row for each outcome that has no
        submission before it or is not the first, and for each repeated submission.
    """
    reason = (
        sf.when(sf.col("submits") == 0, "no submission before it")
        .when(_is("outcome") & (sf.col("ends") > 1), "ended before")
        .when(_is("submit") & (sf.col("submits") > 1), "submitted before")
    )
    lives = _lives(records).withColumn("reason", reason).where(sf.col("reason").isNotNull())
    return lives.select("run_id", "node", "seq", "kind", "op_id", "outcome", "wall_ns", "mono_ns", "reason")


def _lives(records: DataFrame) -> DataFrame:
    """Put next to each submission and outcome what was before it in its operation, and what ended it after it.

    Adds ``submits`` and ``ends``, how many of each there were up to this record, an outcome before any submission
    left out; and ``end``, the next outcome.
    """
    life = Window.partitionBy(*OPERATION).orderBy("seq")
    so_far = life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # As SQL, because Spark's functions in Python have no way to say that submissions are passed over.
    next_end = f"lead(end) ignore nulls over (partition by {', '.join(OPERATION)} order by seq)"
    return (
        records.where(_is("submit") | _is("outcome"))
        .withColumn("submits", sf.count(sf.when(_is("submit"), 1)).over(so_far))
        .withColumn("end", sf.when(_is("outcome"), sf.struct(*_END)))
        .withColumn("end", sf.expr(next_end))
        .withColumn("ends", sf.count(sf.when(_is("outcome") & (sf.col("submits") > 0), 1)).over(so_far))
    )


def _is(kind: str) -> Column:
    return sf.col("kind") == kind

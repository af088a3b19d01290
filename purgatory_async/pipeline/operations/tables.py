"""Operations as tables: the records of each put together, and the span of each node.

Run, node and id identify an operation; ``seq`` orders the records of a run and node. The first submission begins an
operation, and the first outcome after it ends it. Any other record is an anomaly: the journal lost a record, or an
operation ended twice. Anomalies are listed, and no other figure counts them.

Records are dealt into buckets, which workers pair in columns: sorting them as Spark rows takes several times as long.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, deal, gathered
from purgatory_async.pipeline.operations.pairing import ANOMALIES, OPERATIONS, Pairing
from purgatory_async.pipeline.schemas import spark_schema

__all__ = [
    "OPERATION",
    "anomalies",
    "anomalies_of",
    "dealt",
    "nodes",
    "operations",
    "operations_of",
    "paired",
]

OPERATION: Final = ("run_id", "node", "op_id")
"""The columns that identify an operation."""


def operations(records: DataFrame) -> DataFrame:
    """Find the outcome of each submitted operation.

    Args:
        records: Of a journal, with the columns of `purgatory_async.journal.schema.FIELDS`.

    Returns:
        ``run_id, node, op_id, submit_seq, submit_ns, submit_wall_ns, keys, needed, timeout_ns, outcome, end_seq,
        end_ns, end_wall_ns, latency_ns, lateness_ns, checks, inserts``, a row for each operation; the columns
        from ``outcome`` on are null while it is pending. ``submit_ns`` and ``end_ns`` are ``mono_ns`` of the
        records, and replace a missing ``latency_ns`` or ``lateness_ns`` of an outcome.

    One shuffle of the submissions and outcomes.
    """
    return operations_of(dealt(records))


def anomalies(records: DataFrame) -> DataFrame:
    """List the records that belong to no operation.

    Args:
        records: As for `operations`.

    Returns:
        ``run_id, node, seq, kind, op_id, outcome, wall_ns, mono_ns, reason``, a row for each outcome that has no
        submission before it or is not the first, and for each repeated submission.
    """
    return anomalies_of(dealt(records))


def dealt(records: DataFrame) -> DataFrame:
    """Deal records into buckets; see `purgatory_async.pipeline.operations.buckets`."""
    wanted = records.where("kind in ('submit', 'outcome')").select(*DEAL_READ)
    return wanted.mapInArrow(deal, spark_schema(DEALT))


def operations_of(buckets: DataFrame) -> DataFrame:
    """As `operations`, of dealt records."""
    return paired(buckets, Pairing.operations, OPERATIONS)


def anomalies_of(buckets: DataFrame) -> DataFrame:
    """As `anomalies`, of dealt records."""
    return paired(buckets, Pairing.anomalies, ANOMALIES)


def paired(buckets: DataFrame, result: Callable[[Pairing], pa.Table], schema: pa.Schema) -> DataFrame:
    """Pair the records of each bucket.

    Args:
        buckets: From `dealt` or `deal`.
        result: Makes a table of a bucket's pairing; runs on the worker that has the bucket.
        schema: Of that table.
    """

    def tell(rows: pa.Table) -> pa.Table:
        """Pair a bucket."""
        return result(Pairing.of(*gathered(rows), rows["bucket"][0].as_py()))

    return buckets.groupBy("bucket").applyInArrow(tell, spark_schema(schema))


def nodes(covered: DataFrame) -> DataFrame:
    """Survey the runs and nodes of a journal.

    Args:
        covered: From `purgatory_async.pipeline.operations.coverage.cover`, of all its parts.

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

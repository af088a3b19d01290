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
    "dealt",
    "nodes",
    "operations",
    "paired",
]

OPERATION: Final = ("run_id", "node", "op_id")
"""The columns that identify an operation."""


def dealt(records: DataFrame) -> DataFrame:
    """Deal records into buckets, as `map_records` with `deal` does where they are read."""
    wanted = records.where("kind in ('submit', 'outcome')").select(*DEAL_READ)
    return wanted.mapInArrow(deal, spark_schema(DEALT))


def operations(buckets: DataFrame) -> DataFrame:
    """Find the outcome of each submitted operation.

    Args:
        buckets: Records of a journal, dealt.

    Returns:
        The columns of `OPERATIONS`, a row for each operation; those from ``outcome`` on are null while it is pending.
        ``submit_ns`` and ``end_ns`` are ``mono_ns`` of the records, and replace a missing ``latency_ns`` or
        ``lateness_ns`` of an outcome.

    One shuffle of the submissions and outcomes.
    """
    return paired(buckets, Pairing.operations, OPERATIONS)


def anomalies(buckets: DataFrame) -> DataFrame:
    """List the records that belong to no operation.

    Returns:
        The columns of `ANOMALIES`, a row for each outcome that has no submission before it or is not the first, and
        for each repeated submission.
    """
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

"""The life of each operation, put together from its records.

An operation is a run's, a node's and an id's; within a run and node ``seq`` is the order of things. Its first
submission begins it and the first outcome after that ends it. What is over and above that is an anomaly: it says
that a journal lost a record, or that something ended twice. It is listed, and counted in no other figure.

Records are dealt into buckets and put together by workers, in columns: to sort them as Spark's rows takes several
times as long.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from purgatory_async.pipeline.kernels.buckets import DEAL_READ, DEALT, deal, gathered
from purgatory_async.pipeline.kernels.pairing import ANOMALIES, OPERATIONS, Pairing
from purgatory_async.pipeline.schemas import spark_schema

__all__ = ["OPERATION", "anomalies", "anomalies_of", "dealt", "operations", "operations_of", "paired"]

OPERATION: Final = ("run_id", "node", "op_id")
"""The columns that name an operation."""


def operations(records: DataFrame) -> DataFrame:
    """Find for each submitted operation how it ended.

    Args:
        records: Of a journal, with the columns of `purgatory_async.journal.schema.FIELDS`.

    Returns:
        ``run_id, node, op_id, submit_seq, submit_ns, submit_wall_ns, keys, needed, timeout_ns, outcome, end_seq,
        end_ns, end_wall_ns, latency_ns, lateness_ns, checks, inserts``, a row for each operation; the columns
        from ``outcome`` on are null while it is pending. ``submit_ns`` and ``end_ns`` are ``mono_ns`` of the
        records, and stand in for a ``latency_ns`` or ``lateness_ns`` that an outcome does not have.

    One shuffle of the submissions and outcomes.
    """
    return operations_of(dealt(records))


def anomalies(records: DataFrame) -> DataFrame:
    """List the records that belong to no life.

    Args:
        records: As for `operations`.

    Returns:
        ``run_id, node, seq, kind, op_id, outcome, wall_ns, mono_ns, reason``, a row for each outcome that has no
        submission before it or is not the first, and for each repeated submission.
    """
    return anomalies_of(dealt(records))


def dealt(records: DataFrame) -> DataFrame:
    """Deal records into buckets; see `purgatory_async.pipeline.kernels.buckets`."""
    wanted = records.where("kind in ('submit', 'outcome')").select(*DEAL_READ)
    return wanted.mapInArrow(deal, spark_schema(DEALT))


def operations_of(buckets: DataFrame) -> DataFrame:
    """As `operations`, of records that were dealt already."""
    return paired(buckets, Pairing.operations, OPERATIONS)


def anomalies_of(buckets: DataFrame) -> DataFrame:
    """As `anomalies`, of records that were dealt already."""
    return paired(buckets, Pairing.anomalies, ANOMALIES)


def paired(buckets: DataFrame, told: Callable[[Pairing], pa.Table], schema: pa.Schema) -> DataFrame:
    """Put together the records of each bucket.

    Args:
        buckets: From `dealt`, or what `deal` made of a journal.
        told: What to tell of a bucket; it runs where the bucket is.
        schema: Of what it tells.
    """

    def tell(rows: pa.Table) -> pa.Table:
        """Do a bucket."""
        return told(Pairing.of(*gathered(rows), rows["bucket"][0].as_py()))

    return buckets.groupBy("bucket").applyInArrow(tell, spark_schema(schema))

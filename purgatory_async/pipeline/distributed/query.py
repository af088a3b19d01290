"""The two stages in one query: operations and signals in, outcomes out; and the counts in its state."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from purgatory_async.pipeline.distributed.operations import (
    OPERATION_INPUT,
    OPERATION_OUTPUT,
    TALLY,
    OperationProcessor,
)
from purgatory_async.pipeline.distributed.shards import Pace
from purgatory_async.pipeline.distributed.watches import WATCH_INPUT, WATCH_OUTPUT, WatchProcessor
from purgatory_async.pipeline.output import checkpoint_path

# Spark numbers the operators of a query from its end.
DECIDING_STAGE = 0
WATCHING_STAGE = 1


def outcomes(operations: DataFrame, signals: DataFrame, *, pace: Pace, shards: int) -> DataFrame:
    """End every operation once: a stream of ``op_id, outcome, submit_ns, deadline_ns, decided_ns``.

    Rows are grouped by shard and not by operation or key, the proposal's "enqueue buckets, not tasks": Spark keeps one
    value and one timer for each of a few shards.

    Args:
        operations: From `read_operations`.
        signals: From `read_signals`.
        pace: The notion of time.
        shards: How many shards the keys have, and the operations as well.
    """
    if pace.time == "event":
        operations = _with_watermark(operations, "submit_ns", pace.delay_ms)
        signals = _with_watermark(signals, "at_ns", pace.delay_ms)
    read = _watches(operations, shards).unionByName(_signals(signals, shards))
    watched = _stage(read, WatchProcessor(pace), WATCH_OUTPUT, pace).withColumn(
        "shard", _shard("op_id", shards)
    )
    return _stage(watched.select(*OPERATION_INPUT), OperationProcessor(pace), OPERATION_OUTPUT, pace)


def _stage(rows: DataFrame, processor: StatefulProcessor, columns: str, pace: Pace) -> DataFrame:
    return rows.groupBy("shard").transformWithStateInPandas(
        processor, outputStructType=columns, outputMode="append", timeMode=pace.time_mode
    )


def _with_watermark(rows: DataFrame, instant: str, delay_ms: int) -> DataFrame:
    """Declare the event time in Spark's microseconds, rounded down so that no watermark is ahead of its record.

    The stages do not select the column, because Spark would then drop rows behind the watermark. So they see all rows,
    and a late operation ends like any other.
    """
    moment = F.timestamp_micros(F.expr(f"{instant} div 1000"))
    return rows.withColumn("moment", moment).withWatermark("moment", f"{delay_ms} milliseconds")


def _shard(name: str | Column, shards: int) -> Column:
    return F.pmod(F.xxhash64(name), F.lit(shards)).cast("int").alias("shard")


def _watches(operations: DataFrame, shards: int) -> DataFrame:
    """A row for each operation, without a key, and one for each of its keys if it needs a signal.

    All are of one scan: a second branch of the plan for the operations would read their files a second time.
    """
    itself = F.array(F.lit(None).cast("string"))
    keys = F.when(F.col("needed") > 0, F.concat(itself, "keys")).otherwise(itself)
    return (
        operations.withColumn("key", F.explode(keys))
        .withColumns({"instant_ns": F.col("submit_ns"), "until_ns": F.col("deadline_ns")})
        .withColumns({"amount": F.col("needed"), "shard": _shard(F.coalesce("key", "op_id"), shards)})
        .select(*WATCH_INPUT)
    )


def _signals(signals: DataFrame, shards: int) -> DataFrame:
    return (
        signals.withColumns({"op_id": F.lit(None).cast("string"), "amount": F.col("n")})
        .withColumns({"instant_ns": F.col("at_ns"), "until_ns": F.col("at_ns")})
        .select(_shard("key", shards), *WATCH_INPUT[1:])
    )


def read_tally(spark: SparkSession, checkpoint: Path) -> dict[str, int]:
    """Sum the shards' counts since the checkpoint began, as of its last complete batch.

    The counts are part of the state, so they are exact even if batches were lost or repeated.
    """
    commits = checkpoint / "commits"
    if not commits.is_dir() or not any(path.name.isdigit() for path in commits.iterdir()):
        return dict.fromkeys(TALLY, 0)
    with _plainly_named(checkpoint) as place:
        state = (
            spark.read.format("statestore")
            .option("operatorId", DECIDING_STAGE)
            .option("stateVarName", "shard")
            .load(checkpoint_path(place))
        )
        sums = (F.coalesce(F.sum(f"value.{name}"), F.lit(0)).alias(name) for name in TALLY)
        row: Any = state.agg(*sums).first()
    return {name: row[name] for name in TALLY}


@contextmanager
def _plainly_named(directory: Path) -> Iterator[Path]:
    """Yield a name without letters that URIs escape: Spark's reader of states escapes them twice.

    The new name exists on this machine only; on a cluster, directories need plain names.
    """
    path = directory.absolute()
    if quote(str(path)) == str(path):
        yield path
        return
    with TemporaryDirectory(prefix="purgatory-") as scratch:
        plain = Path(scratch, "checkpoint")
        plain.symlink_to(path)
        yield plain

"""``purgatory pipeline distributed``: the purgatory itself on Structured Streaming.

Operations wait on their keys until signals satisfy them or their timeout expires, exactly once, as in the library. The
pending operations are in the state of a Spark query, which can be as large as the cluster.

It is for matching a million payments with their confirmations within three days. Spark works in batches, so a caller
that waits for an answer needs the library or the service.

By **event time** the instants of the records decide, not the time of reading. The watermark is the smaller of the
newest submission and the newest signal read, less ``--delay``. An operation ends once the watermark has passed the
instant of its end. Every operation up to the watermark ends as on a single machine that sees all signals in order; the
rest is pending. An input without new records holds the watermark, so a quiet input needs a record now and then (an
operation without keys, a signal on an unwatched key). A record read more than ``--delay`` behind the newest of its
input is late: it counts as far as it still can, a late operation ends like any other, and standard error reports the
number of late operations.

By **processing time** the clock decides. A sum that is reached completes its operation in the same batch, and neither
input delays the other. It differs from event time in three ways. First, a signal before the deadline is too late if it
is read after the operation expired; after an outage, read the backlog in one batch (no ``--files-per-batch``), or
operations expire while their signals are in the next file. Second, ``decided_ns`` is the first instant at which the
signals read by then reach the sum; a signal read later may be earlier. Third, a signal that is read before its
operation is kept for ``--keep`` seconds only.

Signals of one instant count together. ``needed`` of 0 or less is satisfied at submission. An id names one operation;
the same row read again while it is pending is skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.checkpoints import Identity, check_checkpoint, check_free, claimed_checkpoint
from purgatory_async.pipeline.damage import check_distributed_files
from purgatory_async.pipeline.distributed.inputs import (
    OPERATION_COLUMNS,
    SIGNAL_COLUMNS,
    check_input,
    read_operations,
    read_signals,
)
from purgatory_async.pipeline.distributed.query import outcomes, read_tally
from purgatory_async.pipeline.distributed.shards import Pace, Time
from purgatory_async.pipeline.jobs.frame import (
    C,
    Seconds,
    continued_options,
    directory_option,
    progress,
    spark_options,
    summary,
)
from purgatory_async.pipeline.jobs.queries import damage_explained, run_query, stop_asked
from purgatory_async.pipeline.output import checkpoint_path
from purgatory_async.pipeline.session import open_session, stateful_tasks
from purgatory_async.pipeline.shared import check_shared

MS: Final = 1000  # in a second
LONGEST_S: Final = 10 * 365 * 24 * 3600

SETTINGS: Final = {
    # The slower of the two inputs sets the watermark.
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    # A batch rewrites each shard's state; Spark's default of a hundred copies wastes space.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Without Hadoop's native library, Spark's default starts a process of `readlink` at each rename: 43 ms for each
    # file of the checkpoint. This one looks for the name and then renames, both without; two drivers could come between
    # each other there, but our lock keeps the second away.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

_NOTICED: Final = {
    "late": "read after the watermark had passed their submission; their outcomes may differ with a longer --delay",
    "repeated": "read again while pending and skipped",
}

JAVA_OPTIONS: Final = "-XX:+UseSerialGC"
"""Java keeps little from batch to batch here, and the cores are busy with the batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of a run: its options, with `Pace` for ``delay`` and ``keep``; times are in seconds."""

    operations: Path
    signals: Path
    out: Path
    checkpoint: Path
    time: Time
    shards: int = 8
    delay: float = 0.0
    keep: float = 60.0
    trigger: float = 0.5
    files_per_batch: int | None = None
    available_now: bool = False

    @property
    def pace(self) -> Pace:
        """The settings that the stages need."""
        return Pace(self.time, round(self.delay * MS), round(self.keep * MS))

    @property
    def identity(self) -> Identity:
        """The settings that cannot change while the checkpoint lives."""
        operations, signals, out = (str(at.resolve()) for at in (self.operations, self.signals, self.out))
        return Identity(operations, signals, out, self.time, self.shards, self.delay, self.keep)

    def check(self) -> None:
        """Check the checkpoint and the inputs before Spark starts; raises `Refused`."""
        check_checkpoint(self.checkpoint, self.out, self.identity)
        check_free(self.checkpoint, "run")
        check_distributed_files(self.checkpoint, self.out)
        check_input("--operations", self.operations, OPERATION_COLUMNS)
        check_input("--signals", self.signals, SIGNAL_COLUMNS)


def run(
    plan: Plan, spark: SparkSession, stopped: Callable[[], bool] = lambda: False
) -> tuple[dict[str, int], dict[str, int]]:
    """Run the purgatory until ``stopped``, or with ``available_now`` until everything is read.

    Returns the summary, and the numbers of ``late`` and ``repeated`` operations. ``stopped`` is called five times a
    second. The plan is already checked.

    Raises:
        Refused: Another run holds the checkpoint, it is damaged, an input row is invalid, or Python workers start too
            slowly.
        StreamingQueryException: The query failed otherwise.
    """
    # More tasks than shards would have nothing to do. A checkpoint keeps the number that it began with.
    partitions = {"spark.sql.shuffle.partitions": str(min(plan.shards, stateful_tasks(spark)))}
    for name, value in {**SETTINGS, **partitions}.items():
        spark.conf.set(name, value)
    # By processing time Spark makes empty batches for timers forever, even with availableNow. It reads no file that is
    # newer than the start, so the first batch that read nothing comes after all that did.
    endless = plan.available_now and plan.time == "processing"
    with claimed_checkpoint(plan.checkpoint, plan.identity) as starts, damage_explained(plan.checkpoint):
        _check_shared(plan, spark)
        try:
            run_query(
                lambda: _start(plan, spark, starts),
                lambda query: stopped() or (endless and _read_nothing(query.lastProgress)),
            )
        except StreamingQueryException as error:
            raise _refusal(error) or error from None
        tally = read_tally(spark, plan.checkpoint)
    noticed = {name: tally.pop(name) for name in _NOTICED}
    pending = tally["submitted"] - tally["completed"] - tally["expired"]
    return {**tally, "pending": pending}, noticed


def _check_shared(plan: Plan, spark: SparkSession) -> None:
    plan.out.mkdir(parents=True, exist_ok=True)
    inputs = {"--operations": plan.operations, "--signals": plan.signals}
    reads = {option: [next(place.iterdir(), place).absolute()] for option, place in inputs.items()}
    check_shared(spark, reads, {"--out": plan.out.absolute(), "--checkpoint": plan.checkpoint.absolute()})


def _start(plan: Plan, spark: SparkSession, starts: Path) -> StreamingQuery:
    operations = read_operations(spark, plan.operations, plan.files_per_batch).union(
        read_operations(spark, starts, plan.files_per_batch)
    )
    signals = read_signals(spark, plan.signals, plan.files_per_batch)
    writer = (
        outcomes(operations, signals, pace=plan.pace, shards=plan.shards)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", checkpoint_path(plan.out / "outcomes"))
        .option("checkpointLocation", checkpoint_path(plan.checkpoint))
    )
    if plan.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(plan.trigger * MS)} milliseconds").start()


def _read_nothing(progress: Any) -> bool:
    return progress is not None and all(at["startOffset"] == at["endOffset"] for at in progress["sources"])


def _refusal(error: StreamingQueryException) -> Refused | None:
    """The refusal of an invalid row, if the query failed for one."""
    _, found, message = str(error).partition("[USER_RAISED_EXCEPTION] ")
    return Refused(message.partition(" SQLSTATE")[0].partition("\n")[0]) if found else None


def _seconds_option(flag: str, default: float, explanation: str, least: float = 0.0) -> Callable[[C], C]:
    def check(_: click.Context, __: click.Parameter, value: float) -> float:
        """Check the range, which NaN is not in."""
        if not least <= value <= LONGEST_S:
            raise click.BadParameter(f"must be from {least} to {LONGEST_S} seconds, got {value}")
        return value

    return click.option(
        flag,
        type=Seconds(),
        default=default,
        show_default=True,
        metavar="S",
        callback=check,
        help=explanation,
    )


@click.command("distributed")
@directory_option("--operations", "Parquet files: op_id, keys, needed, submit_ns, timeout_ns.")
@directory_option("--signals", "Parquet files: key, at_ns, n.")
@continued_options("State and progress")
@click.option("--time", type=click.Choice(["event", "processing"]), required=True, help="See below.")
@click.option("--available-now", is_flag=True, help="Stop once everything present has been read.")
@click.option("--files-per-batch", type=click.IntRange(1), metavar="N", help="Of each input.  [default: all]")
@click.option(
    "--shards",
    type=click.IntRange(1, 100_000),
    default=8,
    show_default=True,
    metavar="N",
    help="Of the state, and most tasks of a stage.",
)
@_seconds_option(
    "--delay",
    0.0,
    "Event time: how far a record may be behind the newest of its input. Processing time: how long an operation "
    "waits after its deadline for signals to be read.",
)
@_seconds_option(
    "--keep", 60.0, "Processing time: how long to keep a signal for an operation that is read after it."
)
@_seconds_option(
    "--trigger",
    0.5,
    "From one batch to the next, at least. By processing time, there is one even with nothing to do.",
    least=0.001,
)
@spark_options
def command(*, master: str | None, remote: str | None, **chosen: Any) -> None:
    """Run the purgatory itself on Spark: each operation completes or expires, exactly once.

    It gives outcomes that survive any crash, more operations than one machine holds, and timeouts of seconds to days.
    It does not give milliseconds: an outcome is known a second or more after it was decided. The library and the
    service are faster.

    Outcomes are in OUT/outcomes. Read them with Spark: a crash may leave files of a repeated batch, and only Spark's
    own list there excludes them. After a kill or a stop, the same --out and --checkpoint continue it. Its shards, times
    and directories cannot change; choose the number of shards so that each holds a few megabytes.

    With --time event, the records' instants decide: everything up to the watermark (the older of the newest submission
    and the newest signal, less --delay) ends as on one machine. With --time processing the clock decides: outcomes are
    known sooner, and a signal read after its operation's deadline is too late.

    Put complete files into the inputs: write them under a name that starts with a dot, then rename.

    \b
    Example:
      purgatory pipeline distributed --operations ops --signals signals --out ends --checkpoint state \\
          --time event --available-now
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    plan = Plan(**chosen)
    plan.check()
    with (
        progress("distributed") as say,
        open_session(
            "purgatory distributed", master=master, remote=remote, java_options=JAVA_OPTIONS
        ) as spark,
        stop_asked() as stopped,  # after Spark, which takes SIGINT for itself
    ):
        say("reading" if plan.available_now else "running; Ctrl-C stops it")
        found, noticed = run(plan, spark, stopped)
    for name, count in noticed.items():
        if count:
            click.echo(f"purgatory: {count} operations were {_NOTICED[name]}", err=True)
    summary(found)

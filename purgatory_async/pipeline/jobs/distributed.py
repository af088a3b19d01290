"""``purgatory pipeline distributed``: the purgatory itself on Structured Streaming.

Operations wait on their keys until signals satisfy them or their time is up, whichever is first, exactly once, as they
do in the library; but what waits is in the state of a Spark query, as much of it as a cluster holds.

What it gives: outcomes that survive any crash, none lost and none doubled; more operations and keys than one machine
holds; timeouts of seconds to days. What it does not give: milliseconds. Spark works in batches, so an outcome is
known a second or more after it was decided. Whoever waits for an answer uses the library or the service; whoever has a
million payments to be matched with their confirmations within three days uses this.

By **event time** what happened decides, and not when it was read. An operation ends once the watermark has passed
the instant of its end: the smaller of the newest submission and the newest signal that were read, less ``--delay``.
Every operation up to the watermark ends as it would on a single machine that sees all signals in order; the rest is
pending. An input to which nothing comes holds the watermark, so a quiet input needs a record now and then (an operation
without keys, a signal that nobody waits for). A record that is read more than ``--delay`` behind the newest of its
input is late: it is used as far as it still can be, a late operation ends like any other, and how many there were is
told on standard error.

By **processing time** the clock decides. A sum that is reached completes its operation in the same batch, and no input
holds the other up. It differs from event time in three ways. A signal before the deadline that is read only after
the operation expired comes too late; after an outage, read all that has piled up in one batch (no
``--files-per-batch``), or operations expire while their signals lie in the next file. ``decided_ns`` is the first
instant at which the signals read by then reach the sum, so one read later may have been earlier. And a signal that is
read before its operation is kept for ``--keep`` seconds only.

Signals of one instant count together. ``needed`` of 0 or less is satisfied at submission. An id names one operation;
the same row read again while it is pending is passed over.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from purgatory_async.pipeline.jobs.frame import continued_out_option, directory_option, spark_options, summary
from purgatory_async.pipeline.jobs.stopping import stop_asked
from purgatory_async.pipeline.progress import progress
from purgatory_async.pipeline.refusal import Refused
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.sources.paths import checkpoint_path
from purgatory_async.pipeline.stateful.checkpoint import (
    Identity,
    check_checkpoint,
    claimed_checkpoint,
    read_tally,
)
from purgatory_async.pipeline.stateful.inputs import (
    OPERATION_COLUMNS,
    SIGNAL_COLUMNS,
    check_input,
    read_operations,
    read_signals,
)
from purgatory_async.pipeline.stateful.pace import Pace, Time
from purgatory_async.pipeline.stateful.query import outcomes

__all__ = ["Plan", "command", "run"]

OUTCOMES: Final = "outcomes"
MS: Final = 1000  # in a second
LONGEST_S: Final = 10 * 365 * 24 * 3600
LOOK_S: Final = 0.2

SETTINGS: Final = {
    # Of two inputs the slower one says how far time has come.
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    # A batch writes each shard's state anew; a hundred of them, Spark's default, would be a lot of the same.
    "spark.sql.streaming.minBatchesToRetain": "10",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run.

    Attributes:
        operations: Directory of Parquet files that grows.
        signals: Likewise.
        out: Where ``outcomes/`` is.
        checkpoint: Where Spark keeps state and progress.
        time: By which the purgatory goes.
        shards: Of the state.
        delay: Seconds; see `Pace`.
        keep: Seconds; see `Pace`.
        trigger: Seconds from one batch to the next.
        files_per_batch: Of each input at most; None for all there are.
        available_now: Whether to stop when all that was there at the start has been read.
    """

    operations: Path
    signals: Path
    out: Path
    checkpoint: Path
    time: Time
    shards: int = 16
    delay: float = 0.0
    keep: float = 60.0
    trigger: float = 1.0
    files_per_batch: int | None = None
    available_now: bool = False

    @property
    def pace(self) -> Pace:
        """For the stages."""
        return Pace(self.time, round(self.delay * MS), round(self.keep * MS))

    @property
    def identity(self) -> Identity:
        """What cannot change while the checkpoint lives."""
        return Identity(
            operations=str(self.operations.resolve()),
            signals=str(self.signals.resolve()),
            out=str(self.out.resolve()),
            time=self.time,
            shards=self.shards,
            delay=self.delay,
            keep=self.keep,
        )

    def check(self) -> None:
        """Look at everything that can be wrong before Spark starts.

        Raises:
            Refused: It is.
        """
        check_checkpoint(self.checkpoint, self.out, self.identity)
        check_input("--operations", self.operations, OPERATION_COLUMNS)
        check_input("--signals", self.signals, SIGNAL_COLUMNS)


def run(
    plan: Plan, spark: SparkSession, stopped: Callable[[], bool] = lambda: False
) -> tuple[dict[str, int], dict[str, int]]:
    """Run the purgatory until all is read, if that is the plan, or until it is stopped.

    Args:
        plan: Already checked.
        spark: Where to.
        stopped: Asked a few times a second whether to stop.

    Returns:
        The summary; and what of it needs a word: operations that were ``late`` or ``repeated``.

    Raises:
        Refused: Another run holds the checkpoint, or a row that was read cannot be right.
        StreamingQueryException: The query failed otherwise.
    """
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    with claimed_checkpoint(plan.checkpoint, plan.identity) as starts:
        query = _start(plan, spark, starts)
        try:
            _wait(query, plan, stopped)
        except StreamingQueryException as error:
            raise _refusal(error) or error from None
        finally:
            query.stop()
        tally = read_tally(spark, plan.checkpoint)
    noticed = {name: tally.pop(name) for name in ("late", "repeated")}
    pending = tally["submitted"] - tally["completed"] - tally["expired"]
    return {**tally, "pending": pending}, noticed


def _start(plan: Plan, spark: SparkSession, starts: Path) -> StreamingQuery:
    operations = read_operations(spark, plan.operations, plan.files_per_batch).union(
        read_operations(spark, starts, plan.files_per_batch)
    )
    signals = read_signals(spark, plan.signals, plan.files_per_batch)
    writer = (
        outcomes(operations, signals, pace=plan.pace, shards=plan.shards)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", checkpoint_path(plan.out / OUTCOMES))
        .option("checkpointLocation", checkpoint_path(plan.checkpoint))
    )
    if plan.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(plan.trigger * MS)} milliseconds").start()


def _wait(query: StreamingQuery, plan: Plan, stopped: Callable[[], bool]) -> None:
    """Wait until the query ends, or ought to."""
    endless = plan.available_now and plan.time == "processing"
    while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type] # seconds, and parts of them
        # By processing time Spark makes batches for timers to go off in for ever, also when it was to take only what
        # was there at the start. It takes no more than that, so a batch that read nothing comes after all that did.
        if stopped() or (endless and _read_nothing(query.lastProgress)):
            return


def _read_nothing(progress: Any) -> bool:
    """Whether a batch had no new files in any source."""
    return progress is not None and all(
        source["startOffset"] == source["endOffset"] for source in progress["sources"]
    )


def _refusal(error: StreamingQueryException) -> Refused | None:
    """The sentence in the failure of a query that met a row it cannot take."""
    _, found, told = str(error).partition("[USER_RAISED_EXCEPTION] ")
    return Refused(told.partition(" SQLSTATE")[0].partition("\n")[0]) if found else None


def _seconds(context: click.Context, parameter: click.Parameter, value: float) -> float:
    least = 0.001 if parameter.name == "trigger" else 0.0
    if not (math.isfinite(value) and least <= value <= LONGEST_S):
        raise click.BadParameter(
            f"must be from {least} to {LONGEST_S} seconds, got {value}", context, parameter
        )
    return value


def _named(_: click.Context, __: click.Parameter, value: str) -> Path:
    if not value:
        raise click.BadParameter(f"must name a directory, got {value!r}")
    return Path(value)


@click.command("distributed")
@directory_option("--operations", "Parquet files: op_id, keys, needed, submit_ns, timeout_ns.")
@directory_option("--signals", "Parquet files: key, at_ns, n.")
@continued_out_option
@click.option(
    "--checkpoint", required=True, metavar="DIR", callback=_named, help="State and progress; continued."
)
@click.option("--time", type=click.Choice(["event", "processing"]), required=True, help="What decides.")
@click.option("--available-now", is_flag=True, help="Stop when all that is there has been read.")
@click.option("--files-per-batch", type=click.IntRange(1), metavar="N", help="Of each input.  [default: all]")
@click.option(
    "--shards",
    type=click.IntRange(1, 100_000),
    default=16,
    show_default=True,
    metavar="N",
    help="Of the state.",
)
@click.option(
    "--delay",
    type=float,
    default=0.0,
    show_default=True,
    metavar="S",
    callback=_seconds,
    help="Event time: how far behind the newest of its input a record may come. Processing time: how long after its "
    "deadline an operation waits for signals to be read.",
)
@click.option(
    "--keep",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    callback=_seconds,
    help="Processing time: how long a signal waits for an operation that is read after it.",
)
@click.option(
    "--trigger",
    type=float,
    default=1.0,
    show_default=True,
    metavar="S",
    callback=_seconds,
    help="From one batch to the next.",
)
@spark_options
def command(*, master: str | None, remote: str | None, **chosen: Any) -> None:
    """Run the purgatory itself on Spark: each operation completes or expires, exactly once.

    It gives outcomes that survive any crash, more operations than one machine holds, and timeouts of seconds to days.
    It does not give milliseconds: an outcome is known a second or more after it was decided. For that there are the
    library and the service.

    Outcomes are in OUT/outcomes. Read them with Spark: after a crash there may be files of a batch that was done again,
    which only Spark's own list there tells apart. Killed or stopped, it continues where it was with the same --out and
    --checkpoint. Its shards, times and directories cannot change; name so many shards that each holds a few megabytes.

    With --time event, what happened decides, however it was read: everything up to the watermark (the older of the
    newest submission and the newest signal, less --delay) ends as on one machine. With --time processing the clock
    decides: sooner known, and a signal read after its operation's deadline has come too late.

    Put whole files into the inputs: write them under a name that starts with a dot, then rename.

    \b
    Example:
      purgatory pipeline distributed --operations ops --signals signals --out ends --checkpoint state \\
          --time event --available-now
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    plan = Plan(**chosen)
    plan.check()
    with (
        progress("distributed") as say,
        open_session("purgatory distributed", master=master, remote=remote) as spark,
        stop_asked() as stopped,
    ):
        say("reading what is there" if plan.available_now else "running; Ctrl-C stops it")
        found, noticed = run(plan, spark, stopped)
    _tell(noticed)
    summary(found)


def _tell(noticed: dict[str, int]) -> None:
    """Say on standard error what a person should know."""
    if noticed["late"]:
        click.echo(
            f"purgatory: {noticed['late']} operations were read after the watermark had passed their submission; their "
            "outcomes may differ from those of a longer --delay",
            err=True,
        )
    if noticed["repeated"]:
        click.echo(
            f"purgatory: {noticed['repeated']} operations came again while they were pending", err=True
        )

"""``purgatory pipeline stream``: the table of windows, kept up to date while a journal grows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from purgatory_async.pipeline.jobs.frame import continued_out_option, journal_option, spark_options, summary
from purgatory_async.pipeline.jobs.stopping import stop_asked
from purgatory_async.pipeline.jobs.window_option import window_option
from purgatory_async.pipeline.progress import progress
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.sinks.claim import check_pair, claimed
from purgatory_async.pipeline.sinks.window_batches import WindowBatches
from purgatory_async.pipeline.sources.extent import survey
from purgatory_async.pipeline.sources.journal_source import PurgatoryJournal
from purgatory_async.pipeline.sources.paths import checkpoint_path

__all__ = ["Plan", "command", "run"]

LOOK_S: Final = 0.2
_MS: Final = 1_000_000
# A batch for each window, but not so often that Spark does little else, nor longer than one likes to wait.
_SHORTEST_MS: Final = 1000
_LONGEST_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run.

    Attributes:
        journal: Its directory.
        out: Where the windows are.
        checkpoint: Where Spark keeps its progress, and the stream its state.
        window_ns: The windows' width.
        files_per_batch: From how many segments a batch reads at most; None for all.
        available_now: Whether to stop when all that was there at the start has been read.
    """

    journal: Path
    out: Path
    checkpoint: Path
    window_ns: int
    files_per_batch: int | None = None
    available_now: bool = False

    @property
    def pause_ms(self) -> int:
        """From one batch to the next, in milliseconds."""
        return min(max(self.window_ns // _MS, _SHORTEST_MS), _LONGEST_MS)


def run(plan: Plan, spark: SparkSession, stopped: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Keep the windows up to date until all is read, if that is the plan, or until it is stopped.

    Args:
        plan: What to run.
        spark: Where.
        stopped: Asked a few times a second whether to stop.

    Returns:
        The summary, of this run: the batches that it did, and the rows that they added.

    Raises:
        Refused: Checkpoint and results do not belong together, or another stream works on them.
        StreamingQueryException: The query failed; it continues where it was when it is run again.
    """
    with claimed(plan.checkpoint, plan.out, plan.window_ns):
        batches = WindowBatches(plan.out.absolute(), plan.checkpoint.absolute(), plan.window_ns)
        batches.lay_out()
        before = batches.last_batch()
        query = _start(plan, spark, batches)
        try:
            while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type] # seconds, and parts of them
                if stopped():
                    break
        finally:
            query.stop()
        return {"batches": batches.last_batch() - before, "rows": batches.rows_since(before)}


def _start(plan: Plan, spark: SparkSession, batches: WindowBatches) -> StreamingQuery:
    spark.dataSource.register(PurgatoryJournal)
    source = spark.readStream.format(PurgatoryJournal.name()).option("table", "all")
    if plan.files_per_batch is not None:
        source = source.option("files_per_batch", plan.files_per_batch)
    rows = source.load(str(plan.journal.absolute()))
    place = checkpoint_path(plan.checkpoint / "query")
    writer = rows.writeStream.foreachBatch(batches).option("checkpointLocation", place)
    if plan.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{plan.pause_ms} milliseconds").start()


def _named(_: click.Context, __: click.Parameter, value: str) -> Path:
    if not value:
        raise click.BadParameter(f"must name a directory, got {value!r}")
    return Path(value)


@click.command("stream")
@journal_option
@continued_out_option
@click.option("--checkpoint", required=True, metavar="DIR", callback=_named, help="What was read; continued.")
@window_option
@click.option("--available-now", is_flag=True, help="Stop when all that is there has been read.")
@click.option(
    "--files-per-batch", type=click.IntRange(1), metavar="N", help="Segments in a batch.  [default: all]"
)
@spark_options
def command(*, master: str | None, remote: str | None, **chosen: Any) -> None:
    """Keep the windows up to date while a journal grows; see also the command windows.

    OUT/windows has a file for each batch. A batch adds rows for what it read, so there may be several rows of a window
    and key: sum the counts and merge the sketches. Nothing is waited for and nothing is ever too late. Killed or
    stopped, it continues where it was with the same --out and --checkpoint, and counts nothing twice. OUT/quarantine
    has the journal's damaged lines.

    \b
    Example:
      purgatory pipeline stream --journal journal --out minutes --checkpoint state --window 60
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    plan = Plan(**chosen)
    check_pair(plan.checkpoint, plan.out, plan.window_ns)
    survey(plan.journal)
    with (
        progress("stream") as say,
        open_session("purgatory stream", master=master, remote=remote) as spark,
        stop_asked() as stopped,
    ):
        say("reading what is there" if plan.available_now else "running; Ctrl-C stops it")
        found = run(plan, spark, stopped)
    summary(found)

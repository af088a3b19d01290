"""``purgatory pipeline stream``: keeps the table of windows up to date while a journal grows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from purgatory_async.pipeline.checkpoints import check_free, check_pair, claimed
from purgatory_async.pipeline.damage import check_stream_files, drop_orphans
from purgatory_async.pipeline.jobs.frame import (
    continued_options,
    journal_option,
    progress,
    spark_options,
    summary,
    window_option,
)
from purgatory_async.pipeline.jobs.queries import damage_explained, run_query, stop_asked
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.output import checkpoint_path
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.shared import any_of, check_shared
from purgatory_async.pipeline.source.extent import survey
from purgatory_async.pipeline.source.tables import PurgatoryJournal
from purgatory_async.pipeline.windows import WindowBatches

_MS: Final = 1_000_000
# One batch per window, within these limits: shorter ones cost mostly overhead, longer ones make readers wait.
_SHORTEST_MS: Final = 1000
_LONGEST_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of a run: its options."""

    journal: Location
    out: Path
    checkpoint: Path
    window_ns: int
    files_per_batch: int | None = None
    available_now: bool = False

    @property
    def pause_ms(self) -> int:
        """Milliseconds from one batch to the next."""
        return min(max(self.window_ns // _MS, _SHORTEST_MS), _LONGEST_MS)


def run(plan: Plan, spark: SparkSession, stopped: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Keep the windows up to date until ``stopped``, or with ``available_now`` until everything is read.

    Returns the summary of this run: its batches, and the rows that they added. ``stopped`` is called five times a
    second.

    Raises:
        Refused: Checkpoint and results do not belong together, another stream uses them, the checkpoint is damaged, or
            Python workers start too slowly.
        StreamingQueryException: The query failed otherwise; the next run continues from there.
    """
    with claimed(plan.checkpoint, plan.out, plan.window_ns), damage_explained(plan.checkpoint):
        drop_orphans(plan.checkpoint / "query")
        batches = WindowBatches(plan.out.absolute(), plan.checkpoint.absolute(), plan.window_ns)
        batches.lay_out()
        check_shared(
            spark,
            {"--journal": any_of(survey(plan.journal))},
            {"--out": plan.out.absolute(), "--checkpoint": plan.checkpoint.absolute()},
        )
        before = batches.last_batch()
        run_query(lambda: _start(plan, spark, batches), lambda _: stopped())
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


@click.command("stream")
@journal_option
@continued_options("Progress")
@window_option
@click.option("--available-now", is_flag=True, help="Stop once everything present has been read.")
@click.option("--wait", is_flag=True, is_eager=True, help="Start although the journal has no segment yet.")
@click.option(
    "--files-per-batch", type=click.IntRange(1), metavar="N", help="Segments in a batch.  [default: all]"
)
@spark_options
def command(
    *,
    wait: bool,  # noqa: ARG001 - the check of --journal asks for it
    master: str | None,
    remote: str | None,
    **chosen: Any,
) -> None:
    """Keep the windows up to date while a journal grows; see also the command windows.

    OUT/windows has a file for each batch. A batch adds rows for what it read, so a window and key may have several
    rows: sum the counts and merge the sketches. No record is held back or too late. After a kill or a stop, the same
    --out and --checkpoint continue it, and nothing is counted twice. OUT/quarantine has the journal's damaged lines.

    \b
    Example:
      purgatory pipeline stream --journal journal --out minutes --checkpoint state --window 60
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    plan = Plan(**chosen)
    check_pair(plan.checkpoint, plan.out, plan.window_ns)
    check_free(plan.checkpoint, "stream")
    check_stream_files(plan.checkpoint)
    survey(plan.journal)
    with (
        progress("stream") as say,
        open_session("purgatory stream", master=master, remote=remote) as spark,
        stop_asked() as stopped,  # after Spark, which takes SIGINT for itself
    ):
        say("reading" if plan.available_now else "running; Ctrl-C stops it")
        found = run(plan, spark, stopped)
    summary(found)

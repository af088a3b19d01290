"""``purgatory pipeline windows``: counts of operations by outcome, key and time window."""

from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from purgatory_async.pipeline.jobs.frame import (
    journal_option,
    out_option,
    progress,
    range_options,
    spark_options,
    summary,
    window_option,
)
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.operations.between import Between
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, deal
from purgatory_async.pipeline.operations.tables import operations
from purgatory_async.pipeline.output import Stage, check_fresh, staged
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.shared import any_of, check_shared
from purgatory_async.pipeline.source.extent import Extent, survey
from purgatory_async.pipeline.source.tables import map_records, read_journal
from purgatory_async.pipeline.spark_tables import spark_reads, spark_writes
from purgatory_async.pipeline.windows import steps, windows


def run(journal: Location | Extent, out: Path | Stage, window_ns: int, spark: SparkSession) -> dict[str, Any]:
    """Count a journal, its directory or the result of `survey`, by windows.

    The tables go to a stage, or an empty directory, which Spark's workers must see as this process does. Returns the
    summary.

    Raises:
        Refused: The journal cannot be read.
    """
    extent = journal if isinstance(journal, Extent) else survey(journal)
    lives = operations(map_records(spark, extent, deal, DEAL_READ, DEALT), extent.between)
    counted, tables = windows(steps(lives), window_ns), Stage.of(out).tables
    spark_writes(counted, tables / "windows")
    spark_writes(read_journal(spark, extent).damage, tables / "quarantine")
    made = spark_reads(spark, tables / "windows", counted.schema)
    counts = made.agg(sf.countDistinct("window_start_ns").alias("windows"), sf.count("*").alias("rows"))  # pyright: ignore[reportPrivateImportUsage]
    found: Any = counts.first()
    return {"windows": found["windows"], "rows": found["rows"], **extent.between.summary()}


@click.command("windows")
@journal_option
@out_option
@window_option
@range_options
@spark_options
def command(
    *,
    journal: Location,
    out: Location,
    window_ns: int,
    from_ns: int | None,
    to_ns: int | None,
    master: str | None,
    remote: str | None,
) -> None:
    """Count operations by outcome, key and time window.

    OUT/windows has a row for each window and key: operations submitted in it and operations ended by outcome, by the
    clock of the record. An operation counts under each of its keys. latency_sketch is a KLL sketch of the latencies of
    completed operations in nanoseconds: kll_merge_agg_bigint makes coarser windows, kll_sketch_get_quantile_bigint
    percentiles. OUT/quarantine has the journal's damaged lines. --from and --to choose operations by their submission:
    the tables of successive days add up to the table of them all.

    \b
    Example:
      purgatory pipeline windows --journal journal --out minutes --window 60
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    check_fresh(out)
    extent = survey(journal, Between(from_ns, to_ns))
    with (
        progress("windows") as say,
        staged(out) as stage,
        open_session("purgatory windows", master=master, remote=remote, short=extent.small) as spark,
    ):
        say("counting")
        check_shared(spark, {"--journal": any_of(extent)}, {"--out": stage.tables})
        found = run(extent, stage, window_ns, spark)
    summary(found)

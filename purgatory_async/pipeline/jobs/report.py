"""``purgatory pipeline report``: a report of a journal as tables, figures and a page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from purgatory_async.pipeline.jobs.frame import (
    journal_option,
    open_option,
    open_page,
    out_option,
    progress,
    range_options,
    spark_options,
    summary,
)
from purgatory_async.pipeline.locations import Location
from purgatory_async.pipeline.operations.between import Between
from purgatory_async.pipeline.output import Stage, check_fresh, staged
from purgatory_async.pipeline.report.findings import examine
from purgatory_async.pipeline.report.page import draw, write_page
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.shared import any_of, check_shared
from purgatory_async.pipeline.source.extent import Extent, survey


def run(
    journal: Location | Extent,
    out: Path | Stage,
    spark: SparkSession,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Make a report of a journal: its directory, or the result of `survey`.

    A stage, or an empty directory, gets a directory for each table, ``figures/``, ``report.html`` and ``summary.json``.
    ``say`` is called with each step. Returns the summary.
    """
    extent = journal if isinstance(journal, Extent) else survey(journal)
    stage = Stage.of(out)
    findings = examine(spark, extent, stage, say)
    say("drawing")
    figures = draw(findings, stage.folder / "figures")
    write_page(findings, figures, stage.folder / "report.html")
    (stage.folder / "summary.json").write_text(
        json.dumps(findings.summary, indent=2) + "\n", encoding="utf-8"
    )
    return dict(findings.summary)


@click.command("report")
@journal_option
@out_option
@range_options
@open_option
@spark_options
def command(
    *,
    journal: Location,
    out: Location,
    from_ns: int | None,
    to_ns: int | None,
    opens: bool,
    master: str | None,
    remote: str | None,
) -> None:
    """Report from a journal how operations ended, how long they waited, and any damage to the journal.

    \b
    Examples:
      purgatory pipeline report --journal journal --out report
      purgatory pipeline report --journal journal --out day --from 2026-11-25T00:00Z --to 2026-11-26T00:00Z
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    check_fresh(out)
    extent = survey(journal, Between(from_ns, to_ns))
    with (
        progress("report") as say,
        staged(out) as stage,
        open_session("purgatory report", master=master, remote=remote, short=extent.small) as spark,
    ):
        say("starting")
        check_shared(spark, {"--journal": any_of(extent)}, {"--out": stage.tables})
        found = run(extent, stage, spark, say)
    if opens:
        open_page(out / "report.html")
    summary(found)

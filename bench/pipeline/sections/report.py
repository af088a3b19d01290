"""The report of a journal in rotated segments."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from bench.measure.section import Section
from bench.pipeline.model_journal import write_model_journal
from bench.pipeline.rate import HEADING, Rate, measured, scratch
from bench.pipeline.settings import PipelineSettings
from purgatory_async.pipeline.jobs.report import run
from purgatory_async.pipeline.output import staged
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.workload import PROFILES, Workload

__all__ = ["SECTION", "low_case"]

TARGET_S = 30


def low_case(settings: PipelineSettings, operations: int | None = None) -> Workload:
    """The proposal's low case: 15,000 operations a second, of which some 8 % expire."""
    p50, p75 = PROFILES["low"]
    return Workload(
        requests=settings.operations if operations is None else operations,
        rate=15_000,
        p50=p50,
        p75=p75,
        timeout=0.2,
        keys=2,
        key_space=10_000,
        seed=settings.seed,
    )


def lines(settings: PipelineSettings) -> Iterator[Rate]:
    """A journal without signals."""
    numbers = count()
    with scratch() as directory, open_session("benchmark", master=settings.master) as spark:
        small, whole = directory / "small", directory / "whole"
        for journal, operations in ((small, settings.operations // 50), (whole, settings.operations)):
            journal.mkdir()
            write_model_journal(low_case(settings, operations), journal, signals=False)

        def report(journal: Path) -> None:
            """Report to a directory of its own."""
            with staged(directory / f"report-{next(numbers)}") as stage:
                run(journal, stage, spark)

        report(small)
        yield measured(
            f"Spark, {settings.master}",
            settings.operations,
            settings.heavy_rounds,
            lambda: report(whole),
            target=5_000_000 / TARGET_S,
        )


SECTION = Section(
    name="report",
    title="Report of a journal: tables, figures and page",
    timed=(
        "Wall time from the files of the journal to the report on the disk. Spark is running and has made a "
        "report of a fiftieth before."
    ),
    lines=lines,
    heading=HEADING,
)

"""Making the workload: in one process, and with Spark."""

import dataclasses
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure.section import Section
from bench.pipeline.rate import HEADING, Rate, measured, scratch
from bench.pipeline.settings import PipelineSettings
from purgatory_async.pipeline.jobs.workload import run
from purgatory_async.pipeline.output import staged
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.workload import BLOCK, PROFILES, Workload

__all__ = ["SECTION"]


def lines(settings: PipelineSettings) -> Iterator[Rate]:
    """The proposal's low case, up to three keys for each operation."""
    p50, p75 = PROFILES["low"]
    workload = Workload(
        requests=settings.operations,
        rate=10_000,
        p50=p50,
        p75=p75,
        timeout=0.2,
        keys=3,
        key_space=100_000,
        seed=settings.seed,
    )
    numbers = count()

    def make(directory: Path, spark: SparkSession | None, workload: Workload = workload) -> None:
        """Write it to a directory of its own."""
        with staged(directory / str(next(numbers))) as stage:
            run(workload, stage, spark=spark)

    with scratch() as directory:
        yield measured("in this process", workload.requests, 1, lambda: make(directory, None))
    with scratch() as directory, open_session("benchmark", master=settings.master) as spark:
        make(directory, spark, dataclasses.replace(workload, requests=min(workload.requests, 20 * BLOCK)))
        yield measured(
            f"Spark, {settings.master}",
            workload.requests,
            settings.heavy_rounds,
            lambda: make(directory, spark),
            target=500_000,
        )


SECTION = Section(
    name="workload",
    title="Operations with arrivals, latencies and keys, as Parquet",
    timed=(
        "Wall time of both passes and the files, until all of it is on the disk. Spark is running and has "
        "made a smaller workload before, so its workers have started."
    ),
    lines=lines,
    heading=HEADING,
)

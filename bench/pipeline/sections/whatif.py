"""A journal under other settings: the arithmetic alone, and the whole command."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

from bench.measure.section import Section
from bench.pipeline.model_journal import write_model_journal
from bench.pipeline.rate import HEADING, Rate, measured, scratch
from bench.pipeline.sections.report import low_case
from bench.pipeline.settings import PipelineSettings
from purgatory_async.pipeline.jobs.whatif import Wanted, run
from purgatory_async.pipeline.output import staged
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.whatif.wheel_sim import Setting, Waits, simulate

__all__ = ["SECTION"]

TARGET = 5_000_000
WANTED = Wanted((0.05, 0.1, 0.2, 0.5, 1.0), (0.001, 0.01), (20, 256))


def lines(settings: PipelineSettings) -> Iterator[Rate]:
    """Five timeouts, two ticks, two wheels."""
    yield _arithmetic(settings)
    numbers = count()
    combinations = len(WANTED.combinations())
    with scratch() as directory, open_session("benchmark", master=settings.master) as spark:
        small, whole = directory / "small", directory / "whole"
        for journal, operations in ((small, settings.operations // 50), (whole, settings.operations)):
            journal.mkdir()
            write_model_journal(low_case(settings, operations), journal, signals=True)

        def recompute(journal: Path) -> None:
            """Recompute to a directory of its own."""
            with staged(directory / f"whatif-{next(numbers)}") as stage:
                run(journal, WANTED, stage, spark)

        recompute(small)
        yield measured(
            f"Spark, {settings.master}, {combinations} settings",
            settings.operations * combinations,
            settings.heavy_rounds,
            lambda: recompute(whole),
            target=TARGET,
        )


def _arithmetic(settings: PipelineSettings) -> Rate:
    """In this process, on one core, with what the signals gave already known."""
    some = np.random.default_rng(settings.seed)
    submit_ns = np.cumsum(some.integers(0, 130_000, settings.operations))
    end_ns = submit_ns + np.exp(some.normal(16.8, 1.63, settings.operations)).astype(np.int64)
    waits = Waits.of(
        submit_ns, end_ns, completed=True, last_ns=submit_ns[-1], timeout_ns=200_000_000, ended=True
    )
    tried = [
        Setting(round(timeout * 1e9), round(tick * 1e9), size)
        for timeout, tick, size in WANTED.combinations()
    ]
    return measured(
        f"the timer alone, one core, {len(tried)} settings",
        settings.operations * len(tried),
        settings.rounds,
        lambda: simulate(waits, tried),
        target=TARGET,
    )


SECTION = Section(
    name="whatif",
    title="What-if: operations times settings",
    timed=(
        "Wall time: first of the simulated timer alone, then from the files of a journal with signals to the "
        "results on the disk. Spark is running and has done a fiftieth before."
    ),
    lines=lines,
    heading=HEADING,
)

"""Timeouts that are integers against the same as floats."""

from collections.abc import Iterator

from bench.core.operation_samples import make_and_watch
from bench.core.settings import CoreSettings
from bench.core.task_samples import keyed_wait
from bench.core.timer_samples import timer_churn
from bench.core.workload import WHOLE, Workload
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.loops import ASYNCIO
from bench.measure.section import Section

__all__ = ["SECTION"]

TARGET = 1.15

MEASURED = {"make + watch": make_and_watch, "wait": keyed_wait, "call_later + cancel": timer_churn}


def lines(settings: CoreSettings) -> Iterator[Line]:
    """For each verb that takes a time, shape of timeouts and setting of the collector."""
    workload = Workload.of(settings.operations, settings)
    for name, sample_of in MEASURED.items():
        for shape, words in WHOLE.items():
            for collector in settings.collectors:
                yield compare(
                    f"{name}, int / float, {words}",
                    loop=ASYNCIO,
                    collector=collector,
                    ours=sample_of(workload, f"{shape} int"),
                    reference=sample_of(workload, shape),
                    rounds=settings.rounds,
                    target=TARGET,
                )


SECTION = Section(
    name="integers",
    title="timeout=5 against timeout=5.0",
    timed=(
        "The same samples twice: with integers (ours) and with floats of the same values (reference). make + "
        "watch: a DelayedOperation subclass on a key of its own. wait: a new task each, ended by "
        "complete_for_key; making the task is timed too. call_later + cancel: as in section timer."
    ),
    lines=lines,
)

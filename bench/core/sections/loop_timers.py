"""`Timer` against the loops' own timers."""

from collections.abc import Iterator

from bench.core.settings import CoreSettings
from bench.core.timer_samples import loop_churn, timer_churn
from bench.core.workload import SHAPES, Workload
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.section import Section

__all__ = ["SECTION"]

TARGETS = {"asyncio": 0.35, "uvloop": 0.50}


def lines(settings: CoreSettings) -> Iterator[Line]:
    """For each loop, shape of timeouts and setting of the collector."""
    workload = Workload.of(settings.operations, settings)
    for loop in settings.loops:
        for shape, words in SHAPES.items():
            for collector in settings.collectors:
                yield compare(
                    f"Timer / loop, call_later + cancel, {words}",
                    loop=loop,
                    collector=collector,
                    ours=timer_churn(workload, shape),
                    reference=loop_churn(workload, shape),
                    rounds=settings.rounds,
                    target=TARGETS[loop],
                )


SECTION = Section(
    name="timer",
    title="Timer.call_later + cancel against the loop's own",
    timed=(
        "N timers are made by call_later(timeout, callback) and all cancelled in random order; then the loop "
        "makes one pass, as in section wheel. Making the handles is timed on both sides."
    ),
    lines=lines,
)

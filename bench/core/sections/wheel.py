"""The bare wheel against the loops' own timers."""

from collections.abc import Iterator

from bench.core.settings import CoreSettings
from bench.core.timer_samples import loop_churn, wheel_churn
from bench.core.workload import SHAPES, Workload
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.section import Section

__all__ = ["SECTION"]

TARGETS = {"asyncio": 0.25, "uvloop": 0.60}


def lines(settings: CoreSettings) -> Iterator[Line]:
    """For each loop, shape of timeouts and setting of the collector, without and with making the entry."""
    workload = Workload.of(settings.operations, settings)
    for loop in settings.loops:
        for shape, words in SHAPES.items():
            for collector in settings.collectors:
                for make_entries in (False, True):
                    yield compare(
                        f"{'make entry, ' * make_entries}add + cancel / call_later + cancel, {words}",
                        loop=loop,
                        collector=collector,
                        ours=wheel_churn(workload, shape, make_entries=make_entries),
                        reference=loop_churn(workload, shape),
                        rounds=settings.rounds,
                        target=None if make_entries else TARGETS[loop],
                    )


SECTION = Section(
    name="wheel",
    title="The bare timing wheel against the loops' own timers",
    timed=(
        "N are scheduled and all cancelled in random order; then the loop makes one pass, because the loops "
        "put off part of cancel() to it. Processor time of all of it, per timer. Ours: read the clock, round "
        "up to a tick of 1 ms, schedule(entry); cancel(entry). Reference: call_later(); cancel(). Our entry "
        "and the loop's callback are made beforehand, the loop's handle is not. With 'make entry', ours makes "
        "its TimerEntry in the timed part."
    ),
    lines=lines,
)

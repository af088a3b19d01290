"""A subclassed operation, awaited, against what one writes by hand."""

from collections.abc import Iterator

from bench.core.settings import CoreSettings
from bench.core.task_samples import awaited_operation, bare_future, by_hand
from bench.core.workload import SHAPES, Workload
from bench.measure.comparison import compare_added
from bench.measure.line import Line
from bench.measure.section import Section

__all__ = ["SECTION"]

TARGETS = {"asyncio": 1.0, "uvloop": 1.15}


def lines(settings: CoreSettings) -> Iterator[Line]:
    """For each loop, shape of timeouts and setting of the collector."""
    workload = Workload.of(settings.operations, settings)
    for loop in settings.loops:
        for shape, words in SHAPES.items():
            for collector in settings.collectors:
                yield compare_added(
                    f"an awaited operation adds / call_later by hand adds, {words}",
                    loop=loop,
                    collector=collector,
                    floor=bare_future(workload),
                    ours=awaited_operation(workload, shape),
                    reference=by_hand(workload, shape),
                    rounds=settings.rounds,
                    target=TARGETS[loop],
                )


SECTION = Section(
    name="operation",
    title="What an awaited operation adds to a bare future, against call_later by hand",
    timed=(
        "As in section wait. Ours: make an operation of a DelayedOperation subclass, pass it to "
        "try_complete_else_watch (its try_complete returns False) and await it. check_and_complete(key) asks "
        "it again; its try_complete forces the completion, and on_complete runs. By hand: a future, "
        "call_later, await in try/finally, handle.cancel()."
    ),
    lines=lines,
)

"""`Purgatory.wait` against ``asyncio.timeout``."""

from collections.abc import Iterator

from bench.core.settings import CoreSettings
from bench.core.task_samples import bare_future, keyed_wait, under_timeout
from bench.core.workload import SHAPES, Workload
from bench.measure.comparison import compare_added
from bench.measure.line import Line
from bench.measure.section import Section

__all__ = ["SECTION"]

TARGET = 0.40
GOAL = 0.20


def lines(settings: CoreSettings) -> Iterator[Line]:
    """For each loop, shape of timeouts and setting of the collector."""
    workload = Workload.of(settings.operations, settings)
    for loop in settings.loops:
        for shape, words in SHAPES.items():
            for collector in settings.collectors:
                yield compare_added(
                    f"a keyed wait adds / asyncio.timeout adds, {words}",
                    loop=loop,
                    collector=collector,
                    floor=bare_future(workload),
                    ours=keyed_wait(workload, shape),
                    reference=under_timeout(workload, shape),
                    rounds=settings.rounds,
                    target=TARGET,
                    goal=GOAL,
                )


SECTION = Section(
    name="wait",
    title="What a keyed wait adds to a bare future, against what asyncio.timeout adds",
    timed=(
        "N new tasks start, wait, are ended in random order and finish; then the loop makes one more pass. "
        "Processor time per task, less a task's on a bare future in the same round (the floor). The "
        "floor finds its future by index, so the look-up of the key counts as ours."
    ),
    lines=lines,
)

"""The steps of an operation, in units of one new asyncio task."""

from collections.abc import Iterator

from bench.core.operation_samples import (
    WATCHERS_PER_KEY,
    complete_by_check,
    complete_by_key,
    expire,
    make_and_watch,
    visit,
    watch,
)
from bench.core.settings import CoreSettings
from bench.core.task_samples import new_task
from bench.core.workload import SHAPES, Workload
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.loops import ASYNCIO
from bench.measure.sampling import Sample
from bench.measure.section import Section

__all__ = ["SECTION"]

WATCH_TARGET = 0.18
COMPLETE_TARGET = 0.20
EXPIRE_TARGET = 0.15
VISIT_TARGET = 0.03


def lines(settings: CoreSettings) -> Iterator[Line]:
    """Each step, for each setting of the collector."""
    workload = Workload.of(settings.operations, settings)
    for name, sample, target in _steps(workload):
        for collector in settings.collectors:
            yield compare(
                f"{name} / one new task",
                loop=ASYNCIO,
                collector=collector,
                ours=sample,
                reference=new_task(workload),
                rounds=settings.rounds,
                target=target,
            )


def _steps(workload: Workload) -> Iterator[tuple[str, Sample, float | None]]:
    for shape, words in SHAPES.items():
        yield f"watch with one key, {words}", watch(workload, shape), WATCH_TARGET
        yield f"make and watch with one key, {words}", make_and_watch(workload, shape), None
    for shape, words in SHAPES.items():
        yield f"check_and_complete, {words}", complete_by_check(workload, shape), COMPLETE_TARGET
        yield f"complete_for_key, {words}", complete_by_key(workload, shape), COMPLETE_TARGET
    yield "expire, same timeout", expire(workload, spread=0.0), EXPIRE_TARGET
    yield "expire, spread over 200 ms, wakeups included", expire(workload, spread=0.2), None
    yield f"visit one that stays, {WATCHERS_PER_KEY} to a key", visit(workload), VISIT_TARGET


SECTION = Section(
    name="task",
    title="The steps of an operation against one new asyncio task (2.5 us on the machine of the targets)",
    timed=(
        "Reference, in the same round on the stock loop: create a future and a task, start it, let it await "
        "the future, wake it and see it finish, N at once; processor time per task. Ours: N operations of a "
        "subclass that overrides try_complete and both hooks, a key each, completed in random order; only the "
        "purgatory refers to them. Expiring: wakeups, slices and hooks of the running timer, from all entered "
        "to none pending."
    ),
    lines=lines,
)

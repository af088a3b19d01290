"""Whether anything is left to the garbage collector."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from bench.core.settings import CoreSettings
from bench.core.workload import CallbackOperation, GatedOperation, Workload
from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import run_on
from bench.measure.section import Section
from purgatory_async import OperationCancelled, OperationExpired, Purgatory

__all__ = ["SECTION"]

BATCH = 10_000
SOON = 0.005
LATE = 60.0

Batch = Callable[[Purgatory, Workload], Awaitable[None]]


def lines(settings: CoreSettings) -> Iterator[Line]:
    """What a collection finds after each way an operation can end, for each loop."""
    share = settings.million // len(WAYS)
    for loop in settings.loops:
        with collector_set(Collector.OFF):
            found = run_on(loop, _found(share, Workload.of(min(BATCH, share), settings)))
        for name, objects in found.items():
            yield Line(
                name=f"unreachable after {share:,} {name}".replace(",", " "),
                loop=loop,
                collector=Collector.OFF,
                unit="objects",
                ours=objects,
                target=0,
            )


async def _found(share: int, workload: Workload) -> dict[str, int]:
    found = {}
    for name, batch in WAYS.items():
        async with Purgatory() as purgatory:
            # The first batch warms up whatever is made once.
            await batch(purgatory, workload)
            gc.collect()
            for _ in range(max(1, share // workload.count)):
                await batch(purgatory, workload)
            assert purgatory.pending == 0, f"{purgatory.pending} are pending after {name}"
            found[name] = gc.collect()
    return found


def _watch_all(purgatory: Purgatory, workload: Workload, timeout: float) -> list[GatedOperation]:
    GatedOperation.condition_holds = False
    operations = [GatedOperation(timeout) for _ in workload.keys]
    for operation, key in zip(operations, workload.keys, strict=True):
        purgatory.try_complete_else_watch(operation, (key, "all"))
    GatedOperation.condition_holds = True
    return operations


async def _checked(purgatory: Purgatory, workload: Workload) -> None:
    _watch_all(purgatory, workload, LATE)
    for index in workload.order:
        purgatory.check_and_complete(workload.keys[index])


async def _completed_by_key(purgatory: Purgatory, workload: Workload) -> None:
    _watch_all(purgatory, workload, LATE)
    purgatory.complete_for_key("all")


async def _cancelled(purgatory: Purgatory, workload: Workload) -> None:
    for operation in _watch_all(purgatory, workload, LATE):
        operation.cancel()


async def _expired(purgatory: Purgatory, workload: Workload) -> None:
    for key in workload.keys:
        purgatory.try_complete_else_watch(CallbackOperation(SOON), (key,))
    while purgatory.pending:  # noqa: ASYNC110 - nothing awaits them, that is the point
        await asyncio.sleep(SOON)


async def _awaited(purgatory: Purgatory, workload: Workload) -> None:
    operations = _watch_all(purgatory, workload, LATE)

    async def wait_for(operation: GatedOperation) -> None:
        await operation

    tasks = [asyncio.ensure_future(wait_for(operation)) for operation in operations]
    await asyncio.sleep(0)
    for index in workload.order:
        purgatory.check_and_complete(workload.keys[index])
    for task in tasks:
        await task


async def _waited(purgatory: Purgatory, workload: Workload) -> None:
    tasks = [asyncio.ensure_future(purgatory.wait(key, timeout=LATE)) for key in workload.keys]
    await asyncio.sleep(0)
    for index in workload.order:
        purgatory.complete_for_key(workload.keys[index])
    for task in tasks:
        await task


async def _waited_in_vain(purgatory: Purgatory, workload: Workload) -> None:
    async def wait_for(key: str) -> None:
        with suppress(OperationExpired):
            await purgatory.wait(key, timeout=SOON)

    tasks = [asyncio.ensure_future(wait_for(key)) for key in workload.keys]
    for task in tasks:
        await task


async def _wait_refused(purgatory: Purgatory, workload: Workload) -> None:
    async def wait_for(key: str) -> None:
        with suppress(OperationCancelled):
            await purgatory.wait(key, timeout=LATE)

    tasks = [asyncio.ensure_future(wait_for(key)) for key in workload.keys]
    await asyncio.sleep(0)
    for index in workload.order:
        purgatory.cancel_for_key(workload.keys[index])
    for task in tasks:
        await task


async def _task_cancelled(purgatory: Purgatory, workload: Workload) -> None:
    tasks = [asyncio.ensure_future(purgatory.wait(key, timeout=LATE)) for key in workload.keys]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


WAYS: dict[str, Batch] = {
    "completed by a check": _checked,
    "completed by key": _completed_by_key,
    "cancelled": _cancelled,
    "expired": _expired,
    "awaited": _awaited,
    "waits completed": _waited,
    "waits expired": _waited_in_vain,
    "waits cancelled by key": _wait_refused,
    "waits whose task was cancelled": _task_cancelled,
}

SECTION = Section(
    name="garbage",
    title="gc.collect() finds nothing after a million operations",
    timed=(
        "A count, not a time. With the collector off, a million operations run in batches, an equal share "
        "ended in each way; the figure is what gc.collect() returns after each batch. No cycle is left, so it "
        "is safe to raise the collector's thresholds."
    ),
    lines=lines,
)

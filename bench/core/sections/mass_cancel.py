"""Whether the loop stalls when nearly all of a million are cancelled."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from statistics import median

from bench.core.settings import CoreSettings
from bench.core.timer_samples import nothing
from bench.core.workload import CallbackOperation
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.sampling import take_turns
from bench.measure.section import Section
from bench.measure.stall import StallWatch, worst
from purgatory_async import Purgatory, Timer

__all__ = ["SECTION"]

TARGET_MS = 10.0
TIMEOUT = 600.0
SHARE = 0.99
SLICE = 1000
LATER_PASSES = 50

Cancellable = list[Callable[[], object]]


def lines(settings: CoreSettings) -> Iterator[Line]:
    """Operations and timers of ours beside the loop's, in slices and all at once, on each loop."""
    for loop in settings.loops:
        for collector in settings.collectors:
            yield from _lines_for(settings, loop, f"slices of {SLICE}", SLICE, collector)
        # All in one call is no way to treat a loop; shown once, for what the loops do with it.
        yield from _lines_for(settings, loop, "one call", settings.million, Collector.OFF)


def _lines_for(
    settings: CoreSettings, loop: str, words: str, slice_size: int, collector: Collector
) -> Iterator[Line]:
    watches: dict[str, list[StallWatch]] = {"operations": [], "timers": [], "loop": []}
    fillers = {"operations": _fill_operations, "timers": _fill_timers, "loop": _fill_loop}

    def sample_of(name: str) -> Callable[[], Awaitable[float]]:
        async def sample() -> float:
            watch = await fillers[name](settings, slice_size)
            watches[name].append(watch)
            return watch.longest_ms

        return sample

    taken = take_turns(
        loop, collector, {name: sample_of(name) for name in fillers}, settings.heavy_rounds, warm_up=False
    )
    for name, title in (("operations", "operation.cancel()"), ("timers", "TimerHandle.cancel()")):
        yield Line(
            name=f"longest pass, {title} / loop's, {words}",
            loop=loop,
            collector=collector,
            unit="ms",
            ours=median(taken[name]),
            reference=median(taken["loop"]),
            target=TARGET_MS,
            absolute=True,
            note=f"{min(taken[name]):.2f}-{max(taken[name]):.2f}; {worst(watches[name])}",
        )


async def _fill_operations(settings: CoreSettings, slice_size: int) -> StallWatch:
    async with Purgatory() as purgatory:
        cancels: Cancellable = []
        for number in range(settings.million):
            operation = CallbackOperation(TIMEOUT)
            purgatory.try_complete_else_watch(operation, (number,))
            cancels.append(operation.cancel)
        watch = await _cancel_most(cancels, settings, slice_size)
        left = settings.million - round(settings.million * SHARE)
        assert purgatory.pending == left, f"{purgatory.pending} are pending, not {left}"
    return watch


async def _fill_timers(settings: CoreSettings, slice_size: int) -> StallWatch:
    timer = Timer()
    cancels: Cancellable = [timer.call_later(TIMEOUT, nothing).cancel for _ in range(settings.million)]
    watch = await _cancel_most(cancels, settings, slice_size)
    timer.close()
    return watch


async def _fill_loop(settings: CoreSettings, slice_size: int) -> StallWatch:
    call_later = asyncio.get_running_loop().call_later
    cancels: Cancellable = [call_later(TIMEOUT, nothing).cancel for _ in range(settings.million)]
    watch = await _cancel_most(cancels, settings, slice_size)
    for cancel in cancels:
        cancel()
    cancels.clear()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return watch


async def _cancel_most(cancels: Cancellable, settings: CoreSettings, slice_size: int) -> StallWatch:
    """Cancel 99 % in random order; watch every pass that follows a slice, and some after the last."""
    random.Random(settings.seed).shuffle(cancels)
    # Entering a million left the loop with something to settle; it is not what is looked for.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    watch = StallWatch()
    most = round(len(cancels) * SHARE)
    for start in range(0, most, slice_size):
        for cancel in cancels[start : min(start + slice_size, most)]:
            cancel()
        await watch.watch_pass()
    for _ in range(LATER_PASSES):
        await watch.watch_pass()
    return watch


SECTION = Section(
    name="cancel",
    title="No stall on mass cancel: one million pending, 99 % cancelled in random order",
    timed=(
        "Wall time of the longest pass of the loop, of those that follow a slice of cancellations and the "
        f"{LATER_PASSES} after the last; the cancelling itself is not timed. A pass that the system "
        "interrupted counts with its processor time. Median of the rounds; in brackets their range, and the "
        "longest wall time of any pass, interruptions included. Reference: the loop's own call_later."
    ),
    lines=lines,
)

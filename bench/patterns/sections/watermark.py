"""Waiting for a number to reach a value: in order of value, compared with checking every waiter."""

from collections.abc import Iterator
from functools import partial

from bench.measure.collector import Collector
from bench.measure.comparison import compare, compare_added
from bench.measure.line import Line
from bench.measure.section import Section
from bench.patterns.settings import PatternSettings
from bench.patterns.watermark_samples import OneKey, advance, begin, begin_on_futures
from purgatory_async.patterns import Watermark

__all__ = ["SECTION"]

# How many an advance lets go, and how many advances make a sample.
STEPS = {1: 1_000, 10: 1_000, 1_000: 50}
ASKING_ALL = 5  # advances of a sample where each asks all waiters
SIZES = (100, 10)  # this many times fewer waiters, to show the effect of their number


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector: advances, what their cost depends on, and the way in."""
    for loop in settings.loops:
        for collector in settings.collectors:
            yield from _advances(settings, loop, collector)
            yield from _scaling(settings, loop, collector)
            yield _beginning(settings, loop, collector)


def _advances(settings: PatternSettings, loop: str, collector: Collector) -> Iterator[Line]:
    waiters = settings.waiters
    for step in STEPS:
        times = _times(waiters, step)
        few = min(times, ASKING_ALL)
        sample = partial(advance, waiters=waiters, step=step, seed=settings.seed)
        yield compare(
            f"advance that reaches {step:,} of {waiters:,} / all asked on one key",
            loop=loop,
            collector=collector,
            ours=sample(Watermark, times=times),
            reference=sample(OneKey, times=few),
            rounds=settings.heavy_rounds,
            unit="us",
            warm_up=False,
            note=f"{times:,} advances a sample; reference {few}",
        )


def _scaling(settings: PatternSettings, loop: str, collector: Collector) -> Iterator[Line]:
    few = settings.waiters // SIZES[0]
    for size in (*SIZES[1:], 1):
        many = settings.waiters // size
        step = 10
        sample = partial(advance, Watermark, step=step, times=_times(few, step), seed=settings.seed)
        yield compare(
            f"advance that reaches {step} of {many:,} / of {few:,}",
            loop=loop,
            collector=collector,
            ours=sample(waiters=many),
            reference=sample(waiters=few),
            rounds=settings.heavy_rounds,
            unit="us",
            warm_up=False,
        )


def _beginning(settings: PatternSettings, loop: str, collector: Collector) -> Line:
    return compare_added(
        f"a wait of {settings.waiters:,} to begin adds / on one key adds",
        loop=loop,
        collector=collector,
        floor=begin_on_futures(waiters=settings.waiters),
        ours=begin(Watermark, waiters=settings.waiters, seed=settings.seed),
        reference=begin(OneKey, waiters=settings.waiters, seed=settings.seed),
        rounds=settings.heavy_rounds,
        warm_up=False,
    )


def _times(waiters: int, step: int) -> int:
    """So many advances of a sample that at least half of the waiters stay."""
    return max(1, min(STEPS[step], waiters // step // 2))


SECTION = Section(
    name="watermark",
    title="Waiters for a number, woken in order of value, against operations that are all asked",
    timed=(
        "A task per waiter, each waiting for a value of its own, entered in random order. Advance: processor "
        "time of Watermark.advance(value) alone; the tasks that it wakes run untimed. Reference: operations "
        "on one watch key whose try_complete compares with the current value; a check_and_complete(key) for "
        "each advance asks all of them, so that side makes few advances. Both end and wake their waiters "
        "through the same code of the purgatory. With more waiters the heap is deeper, and what an advance "
        "touches is less often in the cache. To begin: a new task up to its wait, less a new task up to a "
        "future (the floor); reach(value, timeout) against making an operation, try_complete_else_watch and "
        "await."
    ),
    lines=lines,
)

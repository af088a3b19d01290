"""What it costs to hand an item over, with no taker, one, and a crowd of them."""

from collections.abc import Iterator

from bench.measure.collector import Collector
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.section import Section
from bench.patterns.hand_off_samples import (
    BURST,
    TIMEOUT,
    Way,
    bounded_hand_off,
    bounded_queue,
    drained,
    hand_off,
    idle_takers,
    lying,
    queue,
    queue_under_timeout,
    through_room,
)
from bench.patterns.settings import PatternSettings

__all__ = ["SECTION"]

# What is compared: with and without a timeout, like with like.
WAYS: dict[str, tuple[Way, Way]] = {
    "no timeout": (hand_off(None), queue),
    "60 s": (hand_off(TIMEOUT), queue_under_timeout),
}
IDLE = (1, 1_000)
ROOM = (1, 100)
SHARES = (100, 10, 1)


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector: items that lie there, idle takers, a crowd drained."""
    for loop in settings.loops:
        for collector in settings.collectors:
            for words, ways in WAYS.items():
                yield from _with_few(settings, loop, collector, words, ways)
            yield from _with_room(settings, loop, collector)
            yield from _with_crowd(settings, loop, collector)


def _with_few(
    settings: PatternSettings, loop: str, collector: Collector, words: str, ways: tuple[Way, Way]
) -> Iterator[Line]:
    items = settings.items
    subjects = {
        f"put, take at once / Queue, {words}": [lying(way, items=items, backlog=1) for way in ways],
        f"put {items:,}, take them / Queue, {words}": [
            lying(way, items=items, backlog=items) for way in ways
        ],
    }
    for takers in IDLE:
        name = f"put to the oldest of {takers:,}, take / Queue, {words}"
        subjects[name] = [idle_takers(way, takers=takers, items=items) for way in ways]
    for name, (ours, reference) in subjects.items():
        yield compare(
            name, loop=loop, collector=collector, ours=ours, reference=reference, rounds=settings.rounds
        )


def _with_room(settings: PatternSettings, loop: str, collector: Collector) -> Iterator[Line]:
    for room in ROOM:
        yield compare(
            f"put_wait with room for {room}, take / Queue, {TIMEOUT:g} s",
            loop=loop,
            collector=collector,
            ours=through_room(bounded_hand_off(room), items=settings.items),
            reference=through_room(bounded_queue(room), items=settings.items),
            rounds=settings.rounds,
        )


def _with_crowd(settings: PatternSettings, loop: str, collector: Collector) -> Iterator[Line]:
    ways = WAYS["no timeout"]
    crowd = settings.takers
    subjects = {
        f"put to the oldest of {crowd:,}, take / Queue, no timeout": [
            idle_takers(way, takers=crowd, items=crowd) for way in ways
        ]
    }
    for share in SHARES:
        takers = crowd // share
        subjects[f"put, {takers:,} takers until none is left / Queue"] = [
            drained(way, takers=takers) for way in ways
        ]
    for name, (ours, reference) in subjects.items():
        yield compare(
            name,
            loop=loop,
            collector=collector,
            ours=ours,
            reference=reference,
            rounds=settings.heavy_rounds,
            warm_up=False,
        )


SECTION = Section(
    name="hand-off-cost",
    title="The price of a hand-off against asyncio.Queue",
    timed=(
        "Processor time per item, from put to taken: HandOff.take(key) against Queue.get(), and with a "
        "timeout, HandOff.take(key, timeout=60) against Queue.get() under asyncio.timeout. At once: no taker "
        "waits, and no other item is kept. To the oldest: that many takers wait on the key, and each comes "
        f"back once served; up to {BURST} items are put in a pass of the loop, and the passes are timed. With room: "
        "a task that puts and a task that takes, both with a timeout, and so much room between them. Until "
        "none is left: the puts alone, one per taker; the takers do not come back, and their wakeups are not "
        "timed. The library queues most of a herd's wakeups for later passes; a Queue makes all of them "
        "within the puts."
    ),
    lines=lines,
)

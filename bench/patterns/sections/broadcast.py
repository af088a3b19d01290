"""What it costs to give an item to every subscriber."""

from collections.abc import Iterator

from bench.measure.comparison import compare_each
from bench.measure.line import Line
from bench.measure.section import Section
from bench.patterns.broadcast_samples import (
    TIMEOUT,
    broadcast,
    broadcast_next,
    lying,
    queues,
    queues_under_timeout,
    waiting,
)
from bench.patterns.settings import PatternSettings

__all__ = ["SECTION"]

WAYS = {"no timeout": (broadcast, queues), "60 s": (broadcast_next, queues_under_timeout)}
SUBSCRIBERS = (1, 100)
BACKLOG = 100


def lines(settings: PatternSettings) -> Iterator[Line]:
    """For each loop and setting of the collector: a subscriber that is behind, one that waits, many that wait."""
    subjects = {}
    for words, ways in WAYS.items():
        subjects[f"publish {BACKLOG}, read them / queues, {words}"] = [
            lying(way, items=settings.items, backlog=BACKLOG) for way in ways
        ]
        for subscribers in SUBSCRIBERS:
            subjects[f"publish to {subscribers} that wait / queues, {words}"] = [
                waiting(way, subscribers=subscribers, items=settings.items) for way in ways
            ]
    return compare_each(subjects, settings)


SECTION = Section(
    name="broadcast",
    title="The price of a broadcast against a list of queues",
    timed=(
        "Processor time per item and subscriber, from published to read: a step of Broadcast.subscribe() against "
        f"Queue.get(), and with a timeout, Broadcast.next(after, timeout={TIMEOUT:g}) against Queue.get() under "
        "asyncio.timeout. By hand, publishing puts the item into the bounded queue of each subscriber. Read them: the "
        "one subscriber never waits. That wait: an item is published in a pass of the loop, and the passes are timed."
    ),
    lines=lines,
)

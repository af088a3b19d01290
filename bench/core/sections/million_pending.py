"""What a million pending callback operations weigh, and how long it takes to enter them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from bench.core.pending_probe import MEASURES, SHAPES
from bench.core.settings import CoreSettings
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.sampling import Spread
from bench.measure.section import Section

__all__ = ["SECTION"]

TARGET_BYTES = 200


def lines(settings: CoreSettings) -> Iterator[Line]:
    """Bytes by both measures, then time to enter, for each loop and shape of timeouts."""
    count = f"{settings.million:,}".replace(",", " ")
    for loop in settings.loops:
        for shape, words in SHAPES.items():
            for measure in MEASURES:
                yield _line(
                    f"{count} operations, {measure} / bare timers, {words}",
                    settings,
                    loop=loop,
                    shape=shape,
                    measure=measure,
                    collector=Collector.OFF,
                    figure="bytes",
                    target=TARGET_BYTES,
                )
            for collector in settings.collectors:
                yield _line(
                    f"enter {count} operations / bare timers, {words}",
                    settings,
                    loop=loop,
                    shape=shape,
                    measure="rss",
                    collector=collector,
                    figure="enter_ns",
                    target=None,
                )


def _line(
    name: str,
    settings: CoreSettings,
    *,
    loop: str,
    shape: str,
    measure: str,
    collector: Collector,
    figure: str,
    target: float | None,
) -> Line:
    ours, reference = (
        _probe(kind, shape, settings.million, loop, measure, collector, settings.seed)[figure]
        for kind in ("operation", "loop timer")
    )
    return Line(
        name=name,
        loop=loop,
        collector=collector,
        unit="bytes" if figure == "bytes" else "ns",
        ours=ours,
        reference=reference,
        ratio=Spread.of([ours / reference]),
        target=target,
        absolute=True,
    )


@cache  # one process gives both the bytes and the time
def _probe(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.core.pending_probe", *map(str, arguments)]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(finished.stdout)
    return found


SECTION = Section(
    name="memory",
    title="One million pending callback operations, beside bare timers of the loop",
    timed=(
        "Growth of a fresh process, per operation: one subclass with __slots__ = (), a key each, referenced "
        "by the purgatory alone. Keys are made beforehand; the floats of the timeouts are made on the way and "
        "counted. rss: resident memory; tracemalloc: what Python's allocators gave out. A loop's timer has no "
        "key and no outcome. Entering: processor time of make and watch, and of call_later. Each figure is "
        "one process, so it has no spread."
    ),
    lines=lines,
)

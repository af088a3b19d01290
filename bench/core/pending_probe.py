"""Enter many pending timers or operations in this process and print what they take; run in a fresh one.

``python -m bench.core.pending_probe KIND SHAPE COUNT LOOP MEASURE COLLECTOR SEED`` prints one JSON object:
``bytes`` each, and ``enter_ns`` of processor time each.
"""

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from random import Random

from bench.core.timer_samples import nothing
from bench.core.workload import CallbackOperation
from bench.measure.collector import Collector, collector_set
from bench.measure.loops import run_on
from bench.measure.memory import resident_bytes
from purgatory_async import Purgatory

__all__ = ["KINDS", "MEASURES", "SHAPES"]

KINDS = ("operation", "loop timer")
MEASURES = ("rss", "tracemalloc")
SHAPES = {"same": "same 30 s", "uniform": "1-60 s"}


def main() -> None:
    """Measure as the arguments say."""
    kind, shape, count, loop, measure, collector, seed = sys.argv[1:]
    with collector_set(Collector(collector)):
        found = run_on(loop, measured(kind, timeouts_ms(shape, int(count), int(seed)), measure))
    print(json.dumps(found))


async def measured(kind: str, timeouts: "array[int]", measure: str) -> dict[str, float]:
    """Enter one of the kind for each timeout; bytes and time each."""
    keys = [f"order-{number}" for number in range(len(timeouts))] if kind == "operation" else []
    purgatory = Purgatory()
    enter: Callable[[], None] = (
        (lambda: enter_operations(purgatory, keys, timeouts))
        if kind == "operation"
        else (lambda: enter_loop_timers(timeouts))
    )
    gc.collect()
    if measure == "tracemalloc":
        tracemalloc.start()
    before = memory_in_use(measure)
    started = time.process_time_ns()
    enter()
    spent = time.process_time_ns() - started
    grown = memory_in_use(measure) - before
    tracemalloc.stop()
    expected = len(timeouts) if kind == "operation" else 0
    assert purgatory.pending == expected, (
        f"{purgatory.pending} are pending, not {expected}: some have expired"
    )
    return {"bytes": grown / len(timeouts), "enter_ns": spent / len(timeouts)}


def enter_operations(purgatory: Purgatory, keys: list[str], timeouts: "array[int]") -> None:
    """One operation for each key, kept by the purgatory alone."""
    watch = purgatory.try_complete_else_watch
    for key, timeout in zip(keys, seconds(timeouts), strict=True):
        watch(CallbackOperation(timeout), (key,))


def enter_loop_timers(timeouts: "array[int]") -> None:
    """One timer of the running loop for each timeout, kept by the loop alone."""
    call_later = asyncio.get_running_loop().call_later
    for timeout in seconds(timeouts):
        call_later(timeout, nothing)


def seconds(timeouts: "array[int]") -> Iterator[float]:
    """The timeouts as a caller has them: one float for all if all are the same, else one each."""
    if len(set(timeouts)) == 1:
        common = timeouts[0] / 1000
        return (common for _ in timeouts)
    return (timeout / 1000 for timeout in timeouts)


def timeouts_ms(shape: str, count: int, seed: int) -> "array[int]":
    """Timeouts in milliseconds, packed, so that what is measured makes the floats it keeps."""
    if shape == "same":
        return array("i", [30_000]) * count
    draw = Random(seed).randint
    return array("i", (draw(1_000, 60_000) for _ in range(count)))


def memory_in_use(measure: str) -> int:
    """Bytes: resident ones of the process, or those Python's allocators gave out since tracing began."""
    if measure == "tracemalloc":
        return tracemalloc.get_traced_memory()[0]
    return resident_bytes()


if __name__ == "__main__":
    main()

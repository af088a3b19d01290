"""Enter operations by the million, then complete all in random order; run in a fresh process.

``python -m bench.scaling.millions_probe CONTESTANT COUNT LOOP SEED`` prints one JSON object: ``enter_ns`` and
``complete_ns`` of processor time, and resident ``bytes``, of each operation. The garbage collector is off.
"""

import asyncio
import gc
import json
import sys
import time
from array import array
from collections.abc import Callable
from random import Random
from typing import Any, Final

from bench.designs import DESIGNS
from bench.measure.loops import run_on
from bench.measure.memory import resident_bytes
from bench.scaling.samples import SETTLE_S, STANDING_MS
from purgatory_async.clock import MonotonicClock

__all__ = ["FUTURE", "measured"]

FUTURE: Final = "future, call_later"
"""The contestant that has no operations: a future for each key, and a timer of the loop's."""

Watch = Callable[[str, int], Any]
"""Make what waits for a key so many milliseconds, and keep it."""


def main() -> None:
    """Measure as the arguments say."""
    contestant, count, loop, seed = sys.argv[1:]
    gc.disable()
    print(json.dumps(run_on(loop, measured(contestant, int(count), int(seed)))))


async def measured(contestant: str, count: int, seed: int) -> dict[str, float]:
    """Enter as many as asked for, with spread timeouts, and complete them; time and bytes of each."""
    watch, complete, pending = _future() if contestant == FUTURE else _design(contestant)
    chance = Random(seed)
    keys = [f"order-{number}" for number in range(count)]
    timeouts = array("l", (chance.randint(*STANDING_MS) for _ in range(count)))
    order = array("l", range(count))
    chance.shuffle(order)
    kept: list[Any] = [None] * count
    before = resident_bytes()
    started = time.process_time_ns()
    for place in range(count):
        kept[place] = watch(keys[place], timeouts[place])
    entered = time.process_time_ns()
    grown = resident_bytes() - before
    assert pending() == count, f"{pending()} are pending, not {count}"
    began = time.process_time_ns()
    for place in order:
        complete(kept[place])
        kept[place] = None
    await asyncio.sleep(SETTLE_S)  # what was put off belongs to the price: purges, cancelled timers
    ended = time.process_time_ns()
    assert pending() == 0, f"{pending()} are still pending"
    return {
        "enter_ns": (entered - started) / count,
        "complete_ns": (ended - began) / count,
        "bytes": grown / count,
    }


def _design(name: str) -> tuple[Watch, Callable[[Any], object], Callable[[], int]]:
    design = DESIGNS[name](MonotonicClock())
    enter, timeout = design.watch, design.timeout

    class Waiting(design.operation):  # type: ignore[name-defined,misc]  # its base is the design's
        """An operation as its users write it."""

        __slots__ = ()

        def on_complete(self) -> None:
            """The user's work would be here."""

    def watch(key: str, milliseconds: int) -> Any:
        operation = Waiting(timeout(milliseconds))
        enter(operation, (key,))
        return operation

    return watch, Waiting.force_complete, lambda: design.pending


def _future() -> tuple[Watch, Callable[[Any], object], Callable[[], int]]:
    loop = asyncio.get_running_loop()
    create_future, call_later = loop.create_future, loop.call_later
    waiting: dict[str, tuple[asyncio.Future[bool], asyncio.TimerHandle]] = {}

    def expire(key: str) -> None:
        waiting.pop(key)[0].set_result(False)

    def watch(key: str, milliseconds: int) -> str:
        waiting[key] = create_future(), call_later(milliseconds / 1000, expire, key)
        return key

    def complete(key: str) -> None:
        future, handle = waiting.pop(key)
        handle.cancel()
        future.set_result(True)

    return watch, complete, lambda: len(waiting)


if __name__ == "__main__":
    main()

"""What `Durable` costs its own process: ``python -m bench.cluster.durable_probe SCENE ...``.

| scene | does |
|---|---|
| ``purgatory N``, ``durable N`` | waits for a key N times, each ended by a signal: to count instructions |
| ``here URL N`` | prints milliseconds: of appends to a log alone, and from a signal to a reader in this process |
| ``send URL N``, ``there URL N`` | sends N signals; reads what another process sends, and prints the milliseconds |
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Final

from bench.measure.loops import UVLOOP, run_on
from purgatory_async import Purgatory
from purgatory_async.durable import Durable
from purgatory_async.durable.urls import log_of, parsed

KEY: Final = "order-123456"
READY: Final = "ready"
PAUSE_S: Final = 0.01  # so that each signal begins in an idle log
TURNS: Final = 4  # of the loop, until a wait stands
_ENTRY: Final = b'{"k":"signal","key":"order-123456","value":1234567890123456}'


async def _waits(wait: Callable[[], Awaitable[object]], signal: Callable[[], object], times: int) -> None:
    for _ in range(times):
        waiting = asyncio.ensure_future(wait())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        signalled = signal()
        if isinstance(signalled, Awaitable):
            await signalled
        await waiting


async def purgatory(times: int) -> None:
    """Wait in a purgatory."""
    async with Purgatory() as here:
        await _waits(partial(here.wait, KEY), partial(here.complete_for_key, KEY), times)


async def durable(times: int) -> None:
    """Wait in a state in memory."""
    async with Durable("memory:") as here:
        await _waits(partial(here.wait, KEY), partial(here.signal, KEY), times)


async def here(url: str, times: int) -> None:
    """Append to a log, and signal a reader, in turns."""
    log = log_of(parsed(f"{url}.alone"))
    await log.open()
    appended: list[float] = []
    async with Durable(url) as state:
        reading = asyncio.create_task(_read(state, times))
        for _ in range(times):
            await asyncio.sleep(PAUSE_S)
            begin = time.perf_counter_ns()
            await log.append([_ENTRY])
            appended.append((time.perf_counter_ns() - begin) / 1e6)
            await asyncio.sleep(PAUSE_S)
            await state.signal(KEY, time.perf_counter_ns())
        print(json.dumps({"append": appended, "here": await reading}))
    await log.aclose()


async def there(url: str, times: int) -> None:
    """Read the signals of another process."""
    async with Durable(url) as state:
        print(READY, flush=True)
        print(json.dumps(await _read(state, times)))


async def send(url: str, times: int) -> None:
    """Signal what another process reads."""
    async with Durable(url) as state:
        for _ in range(times):
            await asyncio.sleep(PAUSE_S)
            await state.signal(KEY, time.perf_counter_ns())


async def _read(state: Durable, times: int) -> list[float]:
    late_ms: list[float] = []
    async for signal in state.signals(KEY):
        late_ms.append((time.perf_counter_ns() - signal.value) / 1e6)
        if len(late_ms) == times:
            break
    return late_ms


def main(scene: str, *arguments: str) -> None:
    """Play a scene."""
    *urls, times = arguments
    scenes: dict[str, Callable[..., Coroutine[object, object, None]]] = {
        "purgatory": purgatory,
        "durable": durable,
        "here": here,
        "there": there,
        "send": send,
    }
    run_on(UVLOOP, scenes[scene](*urls, int(times)))


if __name__ == "__main__":
    main(*sys.argv[1:])

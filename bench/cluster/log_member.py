"""One worker on a log, measured from inside: ``python -m bench.cluster.log_member``.

It takes one JSON object a line, and answers each with one: a verb and its arguments, then what the verb returns.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, Final

from bench.measure.loops import UVLOOP, run_on
from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, Log, MemoryLog, Signalled
from purgatory_async.durable.urls import Sync, log_of, parsed

PAUSE_S: Final = 0.01  # so that each wake-up begins in an idle log
WAKE: Final = "wake"
ENTRY: Final = b'{"k":"signal","key":"order-123456","value":"paid"}'


class Member:
    """A cluster on a log, and the verbs that measure it."""

    log: Log
    cluster: Cluster

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._late_ms: list[float] = []

    async def open(self, url: str | None, sync: Sync) -> None:
        """Join a log."""
        self.log = _log(url, sync)
        self.cluster = await self._stack.enter_async_context(
            Cluster(Purgatory("bench"), self.log, apply=self._heard)
        )

    async def close(self) -> None:
        """Leave the log."""
        await self._stack.aclose()

    async def signal(self, clients: int, seconds: float) -> dict[str, Any]:
        """Signal; each client waits until its signal is durable and applied before it sends the next."""
        numbers = count()
        return await _burst(lambda: self.cluster.signal(f"order-{next(numbers)}", "paid"), clients, seconds)

    async def append(self, clients: int, seconds: float, url: str | None, sync: Sync) -> dict[str, Any]:
        """Append entries to a log that this worker has not joined; each client waits until its entry is durable."""
        log = _log(url, sync)
        await log.open()
        try:
            return await _burst(lambda: log.append([ENTRY]), clients, seconds)
        finally:
            await log.aclose()

    async def end(self, times: int) -> list[float]:
        """Return the milliseconds of asking for the log's end, one after another."""
        return [await _took_ms(self.log.end) for _ in range(times)]

    async def wake(self, times: int) -> None:
        """Send signals that carry their time."""
        for _ in range(times):
            await asyncio.sleep(PAUSE_S)
            await self.cluster.signal(WAKE, time.perf_counter_ns())

    async def woken(self, times: int) -> list[float]:
        """Return the milliseconds from each such signal to its application here, once all of them are."""
        while len(self._late_ms) < times:  # noqa: ASYNC110 - an event would be one more thing to wake for
            await asyncio.sleep(PAUSE_S)
        late_ms, self._late_ms = self._late_ms, []
        return late_ms

    def _heard(self, signal: Signalled) -> None:
        if signal.key == WAKE and isinstance(signal.value, int):
            # The clock is the machine's, so that processes may compare.
            self._late_ms.append((time.perf_counter_ns() - signal.value) / 1e6)


def _log(url: str | None, sync: Sync) -> Log:
    """Return the log of a URL; without one, of this process's memory."""
    return MemoryLog() if url is None else log_of(parsed(url), sync=sync)


async def _burst(call: Callable[[], Awaitable[object]], clients: int, seconds: float) -> dict[str, Any]:
    took: list[float] = []
    begin = time.perf_counter()

    async def work() -> None:
        while time.perf_counter() < begin + seconds:
            took.append(await _took_ms(call))

    await asyncio.gather(*(work() for _ in range(clients)))
    return {"took_ms": took, "seconds": time.perf_counter() - begin}


async def _took_ms(call: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter_ns()
    await call()
    return (time.perf_counter_ns() - begin) / 1e6


async def _serve() -> None:
    member, lines = Member(), asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        verb, arguments = json.loads(line)
        print(json.dumps(await getattr(member, verb)(*arguments)), flush=True)


if __name__ == "__main__":
    logging.getLogger("purgatory_async").setLevel(logging.ERROR)  # that Redis may lose moments is meant
    run_on(UVLOOP, _serve())

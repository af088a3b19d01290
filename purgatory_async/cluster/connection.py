"""What the logs of all engines share: opened once, calls that share a round trip, delays before reconnecting."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from purgatory_async.cluster.log import Entry, Log, LogError

__all__ = ["Backoff", "OpenOnce", "SharedTrip", "following", "retrieve"]

_SHORTEST_S: Final = 0.010
_LONGEST_S: Final = 2.0


class OpenOnce:
    """Whether a log is new, open or closed; it is opened once."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = "not open"

    def __bool__(self) -> bool:
        return self.state == "open"

    def open(self) -> None:
        """Become open, or raise `LogError` if it has been."""
        if self.state != "not open":
            raise LogError(f"log is {self.state}: cannot open it again; make another one")
        self.state = "open"

    def require(self, verb: str) -> None:
        """Raise `LogError` unless the log is open."""
        if self.state != "open":
            raise LogError(f"log is {self.state}: cannot {verb}")

    def close(self) -> bool:
        """Become closed; True if it was open until now."""
        was_open, self.state = self.state == "open", "closed"
        return was_open


class Backoff:
    """Delays between attempts to reconnect: random, doubling from 10 ms to 2 s, so that workers spread out."""

    __slots__ = ("_longest_s",)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over, after an attempt that succeeded."""
        self._longest_s = 2 * _SHORTEST_S

    def next_delay(self) -> float:
        """Return the seconds to wait before the next attempt."""
        delay = random.uniform(_SHORTEST_S, self._longest_s)  # noqa: S311 - spreads load, hides nothing
        self._longest_s = min(2 * self._longest_s, _LONGEST_S)
        return delay


class SharedTrip:
    """Make one round trip for all callers that asked before it began.

    A caller that comes while one is under way shares the next one: the answer of the present one may have left the
    engine before the caller asked, and would then be too old.
    """

    __slots__ = ("_call", "_next", "_running")

    def __init__(self, call: Callable[[], Awaitable[int]]) -> None:
        self._call = call
        self._running: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def __call__(self) -> int:
        """Return the result of a round trip that begins after this call, or raise its error."""
        if self._next is None:
            self._next = asyncio.create_task(self._go(self._running))
            self._next.add_done_callback(retrieve)
        trip = self._next
        try:
            return await asyncio.shield(trip)  # a caller that is cancelled leaves the trip to the others
        except asyncio.CancelledError:
            if trip.cancelled():
                raise LogError("log is closed: its round trip was cancelled") from None
            raise

    async def aclose(self) -> None:
        """Cancel the trip under way and the next one; their callers get `LogError`."""
        trips = [trip for trip in (self._running, self._next) if trip is not None]
        for trip in trips:
            trip.cancel()
        if trips:
            await asyncio.wait(trips)

    async def _go(self, before: asyncio.Task[int] | None) -> int:
        await asyncio.sleep(0)  # an eager task starts inside create_task, before it is `_next`
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._call()


def retrieve(future: "asyncio.Future[Any]") -> None:
    """Retrieve an error that no caller may await any more, which asyncio would report; as a done callback."""
    if not future.cancelled():
        future.exception()


@asynccontextmanager
async def following(log: Log, after: int) -> AsyncIterator[AsyncIterator[Sequence[Entry]]]:
    """Follow a log inside an ``async with`` block, which closes the stream."""
    reads = log.follow(after)
    try:
        yield reads
    finally:
        if isinstance(reads, AsyncGenerator):
            await reads.aclose()

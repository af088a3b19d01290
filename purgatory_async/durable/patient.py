"""A log that waits for its engine: a service starts, and answers that it is not ready, while the engine is away."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from purgatory_async import Timer
from purgatory_async.cluster import Appended, Checkpoint, Entry, Head, Log, LogError, LogUnavailable
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.outage import Outage


class PatientLog:
    """Opens a log as soon as its engine is there, and is that log from then on; see `Log`.

    Args:
        make: Makes the log. A log whose opening failed is closed for ever, so each attempt needs another one.
        timer: For the pauses between attempts.
        outage: Logs attempts that fail.

    Attributes:
        tried: Set after the first attempt.
    """

    def __init__(self, make: Callable[[], Log], timer: Timer, outage: Outage) -> None:
        self._make: Final = make
        self._timer: Final = timer
        self._outage: Final = outage
        self.tried: Final = asyncio.Event()
        self._log: Log | None = None
        self._closed = False

    def __repr__(self) -> str:
        return "<PatientLog waiting>" if self._log is None else repr(self._log)

    async def open(self, *, epoch: str = "") -> Head:
        """Open the log; see `Log.open`. Waits while the engine is away, which is logged."""
        backoff = Backoff()
        while True:
            log = self._make()
            try:
                head = await (log.open(epoch=epoch) if epoch else log.open())
            except LogUnavailable as error:
                self._outage.fail(error, brief_s=0.0)
                self.tried.set()
                await self._timer.sleep(backoff.next_delay())
                continue
            self.tried.set()
            if self._closed:
                await log.aclose()
                raise LogError("log is closed: cannot open it")
            self._log = log
            return head

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """Append a batch; see `Log.append`."""
        return await self._opened.append(entries)

    def follow(self, after: int) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries after a position; see `Log.follow`."""
        return self._opened.follow(after)

    async def end(self) -> int:
        """Return the newest position; see `Log.end`."""
        return await self._opened.end()

    def end_now(self) -> int | None:
        """Return the newest position if it is known; see `Log.end_now`."""
        return self._opened.end_now()

    async def save(self, position: int, parts: AsyncIterator[bytes], keep: int) -> None:
        """Save a checkpoint; see `Log.save`."""
        await self._opened.save(position, parts, keep)

    async def load(self, *, below: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint; see `Log.load`."""
        return await self._opened.load(below=below)

    async def aclose(self) -> None:
        """Close the log; see `Log.aclose`."""
        self._closed = True
        if self._log is not None:
            await self._log.aclose()

    @property
    def _opened(self) -> Log:
        if self._log is None:
            raise LogUnavailable("the log is not open yet")
        return self._log

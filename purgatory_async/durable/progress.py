"""How far a worker is in its log, how far the log reaches, and the waits for the worker to catch up."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from purgatory_async import Timer
from purgatory_async.cluster import Log, LogUnavailable
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.contact import Contact
from purgatory_async.cluster.outage import Outage
from purgatory_async.patterns import Watermark

ASK_S: Final = 1.0
"""How often the log is asked for its end, so that `connected` and `lag` are true while it is quiet."""

_UNLOADED: Final = -1
"""The position of a state that is being loaded: below the end of an empty log, too."""


class Progress:
    """The position applied here, and the newest one of the log.

    Args:
        log: A log that is open before the first question.
        timer: For all waits.
        start: Starts a task, whose error ends everything.
        outage: Logs the engine's failures; None makes one.

    Attributes:
        contact: When the engine last answered.
    """

    def __init__(
        self,
        log: Log,
        timer: Timer,
        start: Callable[[Coroutine[Any, Any, None]], object],
        outage: Outage | None = None,
    ) -> None:
        self.contact = Contact(0, timer.time, outage)
        self._end = 0  # of the log when the state was loaded
        self._log: Final = log
        self._timer: Final = timer
        self._start: Final = start
        self._reached = Watermark(_UNLOADED, timer=timer)
        # Waits whose question is under way, and waits for the next question: this one's answer may be too old for them.
        self._asking: list[asyncio.Future[None]] = []
        self._to_ask: list[asyncio.Future[None]] = []

    @property
    def loading(self) -> bool:
        """Whether the state is being loaded; then no position counts as reached."""
        return self._reached.value == _UNLOADED

    @property
    def connected(self) -> bool:
        """Whether the state has been up to the log's end since it was loaded, and the log answers and takes entries."""
        return not self.loading and self._reached.value >= self._end and self.contact.connected

    @property
    def lag(self) -> float:
        """Seconds since all that was known was applied; 0.0 if it is, and the engine is connected."""
        return self.contact.lag(applied=self._reached.value)

    def hear(self, position: int) -> None:
        """Note that the engine has answered, and that the log reaches a position. O(1)."""
        self.contact.hear(position, applied=self._reached.value)

    def advance(self, position: int) -> None:
        """Note that a position is applied, and complete the waits for it."""
        self._reached.advance(position)

    def unload(self, reason: Exception) -> None:
        """Begin to load the state: what was reached no longer counts, waits for positions fail."""
        reached, self._reached = self._reached, Watermark(_UNLOADED, timer=self._timer)
        reached.fail_all(reason)
        reached.close()

    def loaded(self, position: int, end: int) -> None:
        """Go on from a position that was loaded, in a log that reached up to ``end``."""
        self.contact.known = self._end = end
        self.contact.accept()  # what was refused is not sent again
        self._reached.advance(position)

    def fail(self, reason: Exception) -> None:
        """Fail every wait."""
        self._reached.fail_all(reason)
        for asker in (*self._asking, *self._to_ask):
            if not asker.done():
                asker.set_exception(reason)

    async def end(self) -> int:
        """Return the log's end; raises as `Log.end`."""
        try:
            position = await self._log.end()
        except LogUnavailable as error:
            self.contact.lose(error)
            raise
        self.hear(position)
        return position

    async def listen(self) -> None:
        """Ask for the log's end from time to time, until cancelled."""
        while True:
            with suppress(LogUnavailable):
                await self.end()
            await self._timer.sleep(ASK_S)

    def has_arrived(self) -> bool:
        """Whether all that is in the log now is applied here, as far as is known without asking it. O(1)."""
        end = self._log.end_now()
        return end is not None and end <= self._reached.value

    def arrival(self) -> "asyncio.Future[None]":
        """Return a future, done once all that is in the log now is applied; questions are shared. O(1)."""
        asker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.has_arrived():
            asker.set_result(None)
            return asker
        self._to_ask.append(asker)
        if not self._asking:
            self._asking, self._to_ask = self._to_ask, []
            self._start(self._answer())
        return asker

    async def _answer(self) -> None:
        """Answer those that ask, as long as one of them waits."""
        backoff = Backoff()
        while self._asking:
            try:
                end = await self.end()
                await self._reached.reach(end)  # not before: the state may have been unloaded meanwhile
            except LogUnavailable:  # or the state is loaded again
                await self._timer.sleep(backoff.next_delay())
                waiting = (*self._asking, *self._to_ask)
                self._asking, self._to_ask = [each for each in waiting if not each.done()], []
                continue
            backoff.reset()
            for asker in self._asking:
                if not asker.done():
                    asker.set_result(None)
            self._asking, self._to_ask = self._to_ask, []

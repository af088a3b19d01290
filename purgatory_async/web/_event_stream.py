"""One stream of server-sent events, from the client's request to its end, for any framework."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from purgatory_async import PurgatoryClosed, PurgatoryError, PurgatoryFull, TimerHandle
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.errors import Interruption, check_callback
from purgatory_async.web._answer import Encode, check_encode, check_range, encoded
from purgatory_async.web._event_sources import Events, Source, events_of
from purgatory_async.web._event_text import COMMENT, check_event_name, event_text, opening_text
from purgatory_async.web._shutdown import held_on
from purgatory_async.web.race import ClientLeft, Interruptible, ServerStops, Stalled

HEARTBEAT: Final = 15.0  # common proxies give up a silent upstream after 60 s, some after 30 s
RETRY: Final = (1.0, 3.0)
SEND_TIMEOUT: Final = 30.0
LAST_PATIENCE: Final = 0.5  # seconds for a client to take what is left once the server stops

EventName = str | Callable[[Any], str | None] | None


class _Silent(Interruption):
    """There was no event for a heartbeat."""


class Wire(Protocol):
    """What a stream is written to."""

    async def open(self) -> None:
        """Send the head."""

    async def write(self, chunk: bytes) -> None:
        """Send a part of the body; an `OSError` if the client has disconnected."""

    async def end(self) -> None:
        """End the body; an `OSError` if the client has disconnected."""

    def cut(self) -> None:
        """Drop the connection, if the server lets it, because the client takes nothing."""


@dataclass(frozen=True, slots=True)
class EventTerms:
    """How events are written, and how long a stream waits; as the arguments of `starlette_events`.

    Raises:
        TypeError: ``encode`` or ``event`` is not as it must be, or ``retry`` is not a pair of numbers.
        ValueError: A time is out of bounds, or ``event`` has a line end.
    """

    encode: Encode | None
    event: EventName
    heartbeat: float
    retry: tuple[float, float]
    send_timeout: float

    def __post_init__(self) -> None:
        check_encode(self.encode)
        if callable(self.event):
            check_callback("event", self.event)
        elif self.event is not None:
            check_event_name(self.event)
        for name, seconds in (("heartbeat", self.heartbeat), ("send_timeout", self.send_timeout)):
            if not 0 < seconds <= MAX_TIMEOUT:
                raise ValueError(f"{name} must be above 0, to {MAX_TIMEOUT:.0f} seconds, got {seconds!r}")
        check_range("retry", self.retry, RETRY)

    def streaming(self, source: Source, last_event_id: str | None) -> "Callable[[Wire], EventStream]":
        """Return a function that makes the stream of a source, whose events begin at this moment; see `events_of`."""
        return partial(EventStream, self, events_of(source, last_event_id, self._text))

    def draw_retry(self) -> float:
        """Draw after how many seconds a client comes back that lost its stream."""
        return random.uniform(*self.retry)  # noqa: S311 - spreads load

    def _text(self, item: object, event_id: str | None) -> bytes:
        name = self.event(item) if callable(self.event) else self.event
        return event_text(encoded(item, self.encode), event=name, event_id=event_id)


class EventStream(Interruptible):
    """A stream under way in the current task.

    Args:
        terms: How long to wait.
        events: What to send.
        wire: Where to.
    """

    __slots__ = ("_events", "_idle", "_last_call", "_terms", "_wire")

    def __init__(self, terms: EventTerms, events: Events, wire: Wire) -> None:
        super().__init__()
        self._events = events
        self._terms = terms
        self._wire = wire
        self._idle = False
        self._last_call: asyncio.TimerHandle | None = None  # once the server stops

    async def run(
        self, watching: Callable[[Interruptible], AbstractContextManager[object]], *, head: bool
    ) -> None:
        """Send the events until there are no more, the client leaves or takes nothing, or the server stops.

        Args:
            watching: Returns a context that calls `leave` when the client disconnects.
            head: Whether the client asked for the headers only.

        Raises:
            BaseException: What the source or the encoding of an event raised, or the server's receiving.
        """
        try:
            with watching(self):
                await self._give(self._wire.open)
                if not head:
                    opening = opening_text(self._terms.draw_retry(), self._events.event_id)
                    await self._give(self._wire.write, opening)
                    await self._send_all()
                await self._give(self._wire.end)
        except ClientLeft:
            pass
        except Stalled:
            self._wire.cut()
        finally:
            if self._last_call is not None:
                self._last_call.cancel()
            await self._events.aclose()

    def stop(self) -> None:
        """End it after the events until now, and within half a second: the server stops."""
        self._events.finish()
        self._last_call = self._task.get_loop().call_later(LAST_PATIENCE, self.fail, Stalled())
        if self._idle:
            self.fail(ServerStops())

    def fail(self, error: BaseException) -> None:
        """End the wait with an exception. One that ends the stream goes before one that ends only a wait."""
        if isinstance(self._reason, (_Silent, ServerStops)):
            self._reason = error
        else:
            super().fail(error)

    async def _send_all(self) -> None:
        try:
            with held_on(self._task.get_loop()).holding(self):
                while chunk := await self._next():
                    await self._give(self._wire.write, chunk)
        except (PurgatoryClosed, PurgatoryFull, ServerStops):
            pass  # a browser does not come back after a 503, but does after the end of a stream

    async def _next(self) -> bytes:
        """Wait for events; return a comment after a heartbeat without any."""
        silence = self._fail_after(self._terms.heartbeat, _Silent())
        self._idle = True
        try:
            with self:
                return await self._events.next()
        except (_Silent, ServerStops):  # after the latter the next call returns what is there already
            return COMMENT
        finally:
            self._idle = False
            silence.cancel()

    async def _give(self, write: Callable[..., Awaitable[None]], *chunk: bytes) -> None:
        """Let the client take something, for as long as it may take."""
        patience = self._fail_after(self._terms.send_timeout, Stalled())
        try:
            with self:
                await write(*chunk)
        except OSError:
            raise ClientLeft from None
        finally:
            patience.cancel()

    def _fail_after(self, delay: float, error: Interruption) -> TimerHandle | asyncio.TimerHandle:
        try:
            return self._events.timer.call_later(delay, self.fail, error)
        except PurgatoryError:  # it is closed or full, and the stream still has to end
            return self._task.get_loop().call_later(delay, self.fail, error)

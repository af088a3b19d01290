"""Streams of events: answers without an end, each read at its client's pace.

A stream keeps one chunk, and reads the next once the client has taken it; a client that is too slow for the feed gets a
gap. A stream ends when its client leaves or takes nothing for a minute, and when the service drains (after the events
until then), or its token is taken away.
"""

from typing import Final

from purgatory_async import OperationExpired, PurgatoryClosed, Timer, TimerHandle
from purgatory_async.durable.documents import problems
from purgatory_async.durable.waiting.feed import Feed
from purgatory_async.errors import Interruption
from purgatory_async.service.held.given import Given, Streamed
from purgatory_async.service.http.wire import Asked
from purgatory_async.web.race import ClientLeft, Race, Stalled

EVENT_STREAM: Final = "text/event-stream"
MAX_STREAMS: Final = 256
SILENCE: Final = 15.0  # seconds without events, after which a comment keeps the connection alive
PAUSE: Final = 0.02  # seconds in which events gather, so that many events are few writes
PATIENCE: Final = 60.0  # seconds for a client to take a chunk
LAST_PATIENCE: Final = 1.0  # the same, while draining
_COMMENT: Final = b":\n\n"
# nginx must not buffer events, and no request follows a stream.
_LINES: Final = b"content-type: %b\r\nx-accel-buffering: no\r\n" % EVENT_STREAM.encode()


class _Released(Interruption):
    """The reader's token has changed."""


class Streams:
    """All streams of events of a service."""

    def __init__(self, feed: Feed, timer: Timer) -> None:
        self.feed: Final = feed
        self.timer: Final = timer
        self.running: Final[set[EventStream]] = set()

    def __repr__(self) -> str:
        return f"<Streams running={len(self.running)} limit={MAX_STREAMS}>"

    def stream(self, request: Asked, after: int | None, prefixes: tuple[str, ...] = ()) -> Given:
        """Answer a request with a stream, which counts as running while it is sent.

        Args:
            request: Its body is ignored; a HEAD gets no events.
            after: The event that the client read last; None for the newest.
            prefixes: All keys of its events begin with one of these; none for all events.

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self.feed.closed:
            raise problems.draining()
        if len(self.running) >= MAX_STREAMS:
            raise problems.overloaded("streams of events", MAX_STREAMS)
        return EventStream(self, request, self.feed.newest if after is None else after, prefixes).send()

    def close(self) -> int:
        """End all streams after the events until now; return how many. Idempotent."""
        if self.feed.closed:
            return 0
        self.feed.close()
        for stream in self.running:
            stream.hurry()
        return len(self.running)


class EventStream:
    """Sends events until the client, a drain or a stall ends it."""

    def __init__(self, streams: Streams, request: Asked, after: int, prefixes: tuple[str, ...]) -> None:
        self._streams = streams
        self._feed = streams.feed
        self._timer = streams.timer
        self._request = request
        self._wire = request.wire
        self._after = after
        self._prefixes = prefixes
        self._race: Race | None = None  # while it is sent
        self._patience: TimerHandle | None = None  # while the client is taking something
        self._sent = 0  # bytes of the body

    def __repr__(self) -> str:
        return f"<EventStream after={self._after} {'waiting' if self._patience is None else 'sending'}>"

    def hurry(self) -> None:
        """Shorten the deadline of the present write."""
        if self._patience is not None:
            self._patience.reschedule(LAST_PATIENCE)

    def release(self) -> None:
        """End the stream, between two events: its token may read no longer."""
        if self._race is not None:
            self._race.fail(_Released())

    def leave(self) -> None:
        """End it: the client has left."""
        if self._race is not None:
            self._race.leave()

    async def send(self) -> Streamed:
        """Send the stream to its end.

        Raises:
            ClientLeft: The client left.
        """
        self._request.check()
        try:
            return await self._send()
        except ConnectionError:  # the wire's word for it
            raise ClientLeft from None

    async def _send(self) -> Streamed:
        await self._wire.open(self._request.server.stamp(self._request) + _LINES)
        race = self._race = Race()
        self._streams.running.add(self)
        self._request.note_held(self)
        try:
            if self._request.method != "HEAD":
                await race.run(self._pump, (race,), PATIENCE)
        except (PurgatoryClosed, _Released):
            pass  # the timer is closed, so nothing can wait; or the token may read no longer
        except Stalled:
            self._wire.cut()  # the answer is incomplete
            return Streamed(self._sent)
        finally:
            self._race = None
            self._streams.running.discard(self)
            self._request.forget_held(self)
        await self._wire.end()
        return Streamed(self._sent)

    async def _pump(self, race: Race, timeout: float) -> None:
        """Send the events so far, wait for more, and repeat until the feed is closed."""
        # Some servers send the headers only with the first piece.
        await self._write(race, timeout, _COMMENT)
        while True:
            closing = self._feed.closed
            chunk, self._after = self._feed.read(self._after, self._prefixes)
            if chunk:
                await self._write(race, timeout, chunk)
            if closing:
                return
            try:
                await self._timer.sleep(0 if self._after < self._feed.newest else PAUSE)
                await self._feed.reach(self._after + 1, SILENCE)
            except OperationExpired:
                await self._write(race, timeout, _COMMENT)
            except PurgatoryClosed:
                pass

    async def _write(self, race: Race, timeout: float, body: bytes) -> None:
        self._patience = self._timer.call_later(timeout, race.fail, Stalled())
        try:
            await self._wire.send(body)
            self._sent += len(body)
        finally:
            self._patience.cancel()
            self._patience = None

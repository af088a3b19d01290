"""Streams of events: endless replies, each sent at its client's pace.

A stream keeps one chunk, and reads the next once the client has taken it; a client that is too slow for the feed gets a
gap. A stream ends when its client leaves or takes nothing for a minute, and when the service drains (after the events
until then), or its token is taken away.
"""

from collections.abc import Sequence
from typing import Final

from purgatory_async import OperationExpired, PurgatoryClosed, Timer, TimerHandle
from purgatory_async.errors import Interruption
from purgatory_async.service.contract import problems
from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.held.feed import Feed
from purgatory_async.service.http.answer import fields_of
from purgatory_async.service.visit import forget_held, note_held
from purgatory_async.web.asgi import Receive, Send
from purgatory_async.web.race import ClientLeft, Race, listening

EVENT_STREAM: Final = "text/event-stream"
MAX_STREAMS: Final = 256
SILENCE: Final = 15.0  # seconds without events, after which a comment keeps the connection alive
PAUSE: Final = 0.02  # seconds in which events gather, so that many events are few writes
PATIENCE: Final = 60.0  # seconds for a client to take a chunk
LAST_PATIENCE: Final = 1.0  # the same, while draining
_COMMENT: Final = b":\n\n"
# nginx must not buffer events, and no request follows a stream.
_HEADERS: Final = (
    ("Content-Type", EVENT_STREAM),
    ("X-Accel-Buffering", "no"),
    ("Connection", "close"),
)


_FIELDS: Final = fields_of(_HEADERS)


class Stalled(Interruption, ConnectionAbortedError):  # noqa: N818 - an event, not a fault
    """The client took nothing for too long: the server must cut the connection."""


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

    def stream(self, after: int | None, receive: Receive, prefixes: tuple[str, ...] = ()) -> "EventStream":
        """Make a stream, which counts as running while it is sent.

        Args:
            after: The event that the client read last; None for the newest.
            receive: The request's; its body is ignored.
            prefixes: All keys of its events begin with one of these; none for all events.

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self.feed.closed:
            raise problems.draining()
        if len(self.running) >= MAX_STREAMS:
            raise problems.overloaded("streams of events", MAX_STREAMS)
        return EventStream(self, self.feed.newest if after is None else after, receive, prefixes)

    def close(self) -> int:
        """End all streams after the events until now; return how many. Idempotent."""
        if self.feed.closed:
            return 0
        self.feed.close()
        for stream in self.running:
            stream.hurry()
        return len(self.running)


class EventStream:
    """A reply that sends events until the client, a drain or a stall ends it.

    Attributes:
        sent: Bytes of the body so far.
    """

    def __init__(self, streams: Streams, after: int, receive: Receive, prefixes: tuple[str, ...]) -> None:
        self._streams = streams
        self._feed = streams.feed
        self._timer = streams.timer
        self._after = after
        self._receive = receive
        self._prefixes = prefixes
        self._race: Race | None = None  # while it is sent
        self._patience: TimerHandle | None = None  # while the client is taking something
        self.status: Final = 200
        self.sent = 0

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

    async def send_to(self, send: Send, *, head_only: bool = False, stamp: Sequence[Field] = ()) -> None:
        """Send the stream to its end; ``head_only`` omits all events, as for HEAD; ``stamp`` are further fields.

        Raises:
            OSError: From ``send``: the client left.
            Stalled: The client took nothing for too long.
        """
        await send({"type": "http.response.start", "status": self.status, "headers": [*_FIELDS, *stamp]})
        race = self._race = Race()
        self._streams.running.add(self)
        note_held(self)
        try:
            if not head_only:
                with listening(self._receive, race):
                    await race.run(self._pump, (send, race), PATIENCE)
        except ClientLeft:
            return
        except (PurgatoryClosed, _Released):
            pass  # the timer is closed, so nothing can wait; or the token may read no longer
        finally:
            self._race = None
            self._streams.running.discard(self)
            forget_held(self)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send, race: Race, timeout: float) -> None:
        """Send the events so far, wait for more, and repeat until the feed is closed."""
        # Some servers send the headers only with the first piece.
        await self._write(send, race, timeout, _COMMENT)
        while True:
            closing = self._feed.closed
            chunk, self._after = self._feed.read(self._after, self._prefixes)
            if chunk:
                await self._write(send, race, timeout, chunk)
            if closing:
                return
            try:
                await self._timer.sleep(0 if self._after < self._feed.newest else PAUSE)
                await self._feed.reach(self._after + 1, SILENCE)
            except OperationExpired:
                await self._write(send, race, timeout, _COMMENT)
            except PurgatoryClosed:
                pass

    async def _write(self, send: Send, race: Race, timeout: float, body: bytes) -> None:
        self._patience = self._timer.call_later(timeout, race.fail, Stalled())
        try:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            self.sent += len(body)
        finally:
            self._patience.cancel()
            self._patience = None

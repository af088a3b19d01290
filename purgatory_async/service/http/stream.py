"""Streams of events: replies without an end, each read at its client's pace.

A stream keeps one chunk. It asks the feed for more once the client has taken that; a client that is too slow for the
feed gets a gap.

A stream ends when its client leaves, when the service drains (after the events until then), and when its client takes
nothing for a minute.
"""

from typing import Final

from starlette.types import Receive, Send

from purgatory_async import OperationExpired, PurgatoryClosed, Timer, TimerHandle
from purgatory_async.service import problems
from purgatory_async.service.http.answer import fields_of
from purgatory_async.service.http.feed import Feed
from purgatory_async.web._asgi import listening
from purgatory_async.web._race import ClientLeft, Race

__all__ = ["EVENT_STREAM", "EventStream", "Streams"]

EVENT_STREAM: Final = "text/event-stream"
MAX_STREAMS: Final = 256
SILENCE: Final = 15.0  # seconds after which a comment says that the connection is alive
PAUSE: Final = 0.02  # seconds in which events gather, so that a storm of them is not a storm of writes
PATIENCE: Final = 60.0  # seconds for a client to take something
LAST_PATIENCE: Final = 1.0  # the same, while draining
_COMMENT: Final = b":\n\n"
# nginx must not buffer what is to be read now, and no request follows a stream.
_HEADERS: Final = (
    ("Content-Type", EVENT_STREAM),
    ("X-Accel-Buffering", "no"),
    ("Connection", "close"),
)


class Stalled(ConnectionAbortedError):  # noqa: N818 - an event, not a fault
    """The client has taken nothing for so long that it is given up: the server is to cut the connection."""


class Streams:
    """All streams of events of a service.

    Args:
        feed: What is read.
        timer: For pauses, and patience with clients.
    """

    def __init__(self, feed: Feed, timer: Timer) -> None:
        self.feed: Final = feed
        self.timer: Final = timer
        self.running: Final[set[EventStream]] = set()
        self.fields: Final = fields_of((*_HEADERS, ("X-Purgatory-Epoch", feed.epoch)))

    def __repr__(self) -> str:
        return f"<Streams running={len(self.running)} limit={MAX_STREAMS}>"

    def stream(self, after: int | None, receive: Receive) -> "EventStream":
        """Make a stream for a request; it counts from when it is sent.

        Args:
            after: The event that the client read last; None for those from now on.
            receive: The request's; its body is of no interest.

        Returns:
            The reply.

        Raises:
            Problem: ``overloaded`` or ``draining``.
        """
        if self.feed.closed:
            raise problems.draining()
        if len(self.running) >= MAX_STREAMS:
            raise problems.overloaded("streams of events", MAX_STREAMS)
        return EventStream(self, self.feed.newest if after is None else after, receive)

    def close(self) -> int:
        """Let all of them end. Idempotent.

        Returns:
            How many there were.
        """
        if self.feed.closed:
            return 0
        self.feed.close()
        for stream in self.running:
            stream.hurry()
        return len(self.running)


class EventStream:
    """One stream: a reply that goes on until the client, a drain or a stall ends it.

    Args:
        streams: Where it belongs.
        after: The event that the client read last.
        receive: The request's; tells that the client left.
    """

    def __init__(self, streams: Streams, after: int, receive: Receive) -> None:
        self._streams = streams
        self._feed = streams.feed
        self._timer = streams.timer
        self._after = after
        self._receive = receive
        self._patience: TimerHandle | None = None  # while the client is taking something

    def __repr__(self) -> str:
        return f"<EventStream after={self._after} {'waiting' if self._patience is None else 'sending'}>"

    def hurry(self) -> None:
        """Have little patience from now on with a client that is taking something."""
        if self._patience is not None:
            self._patience.reschedule(LAST_PATIENCE)

    async def send_to(self, send: Send, *, head_only: bool = False) -> None:
        """Write it out, until its end.

        Args:
            send: The request's.
            head_only: Leave all events out, as for HEAD.

        Raises:
            OSError: As ``send``, which is ASGI's way to say that the client left.
            Stalled: The client is given up in the middle of the answer.
        """
        await send({"type": "http.response.start", "status": 200, "headers": self._streams.fields})
        race = Race()
        self._streams.running.add(self)
        try:
            if not head_only:
                with listening(self._receive, race):
                    await race.run(self._pump, (send, race), PATIENCE)
        except ClientLeft:
            return
        except PurgatoryClosed:
            pass  # the timer is closed too: there is no waiting for anything any more
        finally:
            self._streams.running.discard(self)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send, race: Race, timeout: float) -> None:
        """Send what there is, wait for more, and so on until the feed is closed."""
        await self._write(
            send, race, timeout, _COMMENT
        )  # some servers send the headers with it, and not before
        while True:
            closing = self._feed.closed
            chunk, self._after = self._feed.read(self._after)
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
        finally:
            self._patience.cancel()
            self._patience = None

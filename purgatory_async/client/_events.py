"""Parse ``/v1/events``, a stream of server-sent events, without I/O: lines in, events out."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from purgatory_async.client._model import Event, RequestRefused, ServiceUnreachable
from purgatory_async.client._talk import LOST_BY_A_PROXY, TRY_LATER, Policy, Response, path

EVENTS: Final = path("events")
EVENT_STREAM: Final = "text/event-stream"
SILENCE: Final = 45.0  # seconds; the service sends a line every fifteen
MAX_ID: Final = 64  # characters; the client returns it in a header
_ID: Final = re.compile(r"[!-~]+")  # what a header carries unchanged
_FIELDS: Final = frozenset({"id", "event", "data"})
_LINE_END: Final = re.compile(r"\r\n|\n|\r(?!\Z)")  # a last \r may be half of an end


class EventReader:
    """The position in the stream, over all connections.

    Args:
        after: The id of the last event known; None for events from now on.
        policy: How to retry a connection.

    Raises:
        ValueError: ``after`` cannot be an id.
    """

    def __init__(self, after: str | None, policy: Policy) -> None:
        if after is not None and (_ID.fullmatch(after) is None or len(after) > MAX_ID):
            raise ValueError(
                f"after must be an event's id of 1 to {MAX_ID} visible ASCII characters, got {after!r:.80}"
            )
        self.last = after
        self._policy = policy
        self._delay = policy.first_delay
        self._give_up_at: float | None = None  # None while connected
        self._fields: dict[str, str] = {}
        self._rest = ""  # of an incomplete line

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request for the stream, from the current position."""
        return {"Accept": EVENT_STREAM} | ({} if self.last is None else {"Last-Event-ID": self.last})

    def begin(self, status: int, media_type: str, body: bytes) -> None:
        """Check the answer to a request for the stream.

        Args:
            status: HTTP's.
            media_type: The answer's ``Content-Type``, with its parameters; empty if it has none.
            body: The body of an error; a stream's is read line by line.

        Raises:
            RequestRefused: A retry does not help, or the answer is not a stream of events.
        """
        self._fields.clear()
        self._rest = ""
        if status in TRY_LATER:  # it may start or stop, or the token is at its rate
            self.lost("the service takes no readers")
        elif status in LOST_BY_A_PROXY:
            self.lost(f"a proxy answered {status}")
        elif status >= 400:  # noqa: PLR2004 - HTTP's first error
            raise RequestRefused.of(status, Response(status, {}, body).document)
        elif status != 200:  # noqa: PLR2004 - a stream's only status
            raise RequestRefused.not_understood(status, Response(status, {}, body).document)
        elif media_type.partition(";")[0].strip().lower() != EVENT_STREAM:
            # Else the client would read a page to its end, again and again.
            raise RequestRefused.not_understood(
                status, f"it is {media_type or 'of no type'}, not {EVENT_STREAM}"
            )

    def feed(self, text: str) -> Iterator[Event]:
        """Parse a piece of the stream; see `read`.

        Lines end as the format says: `str.splitlines`, and so httpx2, would split a key at U+2028.
        """
        *lines, self._rest = _LINE_END.split(self._rest + text)
        for line in lines:
            yield from self.read(line)

    def read(self, line: str) -> Iterator[Event]:
        """Parse a line; an empty one ends an event.

        Raises:
            RequestRefused: A purgatory service does not send such an event.
        """
        if line.startswith(":"):
            self._alive()
        elif line:
            name, _, value = line.partition(":")
            if name in _FIELDS:
                self._fields[name] = value.removeprefix(" ")
        elif self._fields:
            fields, self._fields = self._fields, {}
            self._alive()
            yield self._event(fields)

    def lost(self, reason: str) -> None:
        """Note a broken connection.

        Raises:
            ServiceUnreachable: It has been broken for longer than the policy's patience.
        """
        now = self._policy.clock()
        # Counted from the loss: the stream may have been silent for longer than that.
        if self._give_up_at is None:
            self._give_up_at = now + self._policy.patience
        elif now > self._give_up_at:
            raise ServiceUnreachable(f"the event stream was not answered: {reason}")

    def pause(self) -> float:
        """Return how long to wait before the next connection, in seconds."""
        delay, self._delay = self._delay, min(self._delay * 2, self._policy.max_delay)
        return delay * (1 + self._policy.draw()) / 2

    def _alive(self) -> None:
        self._delay = self._policy.first_delay
        self._give_up_at = None

    def _event(self, fields: dict[str, str]) -> Event:
        text = fields.get("id", "")
        if len(text) > MAX_ID:
            reason = f"id must have at most {MAX_ID} characters, got {len(text)}"
            raise RequestRefused.not_understood(200, reason)
        event_id = text if _ID.fullmatch(text) else None
        self.last = self.last if event_id is None else event_id
        try:
            data: Any = json.loads(fields["data"]) if "data" in fields else None
        except (ValueError, RecursionError):
            raise RequestRefused.not_understood(200, f"data: {fields['data']}") from None
        return Event(event_id, fields.get("event", "message"), data)

"""Reading ``/v1/events``, a stream of server-sent events, without I/O: lines in, events out."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from purgatory_async.client._model import Event, RequestRefused, ServiceUnreachable
from purgatory_async.client._talk import LOST_BY_A_PROXY, Policy, Response, path

__all__ = ["EVENTS", "SILENCE", "EventReader"]

EVENTS: Final = path("events")
EVENT_STREAM: Final = "text/event-stream"
SILENCE: Final = 45.0  # seconds; the service says something every fifteen
MAX_ID: Final = 64  # characters; it goes back in a header
_ID: Final = re.compile(r"[!-~]+")  # what a header carries unchanged
_FIELDS: Final = frozenset({"id", "event", "data"})
_LINE_END: Final = re.compile(r"\r\n|\n|\r(?!\Z)")  # a last \r may be half of an end


class EventReader:
    """Where one is in the stream, over all connections.

    Args:
        after: The id of the last event known; None for those from now on.
        policy: How often a connection is tried.

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
        self._give_up_at: float | None = None  # while there is nothing to give up
        self._fields: dict[str, str] = {}
        self._rest = ""  # of a line whose end has not come

    @property
    def headers(self) -> dict[str, str]:
        """Of the request for the stream, from where one is."""
        return {"Accept": EVENT_STREAM} | ({} if self.last is None else {"Last-Event-ID": self.last})

    def begin(self, status: int, media_type: str, body: bytes) -> None:
        """A connection was answered.

        Args:
            status: HTTP's.
            media_type: The answer's ``Content-Type``, with its parameters; empty if it has none.
            body: Of what is no success; a stream's is read line by line.

        Raises:
            RequestRefused: With a problem that trying again does not solve, or it is no stream of events.
        """
        self._fields.clear()
        self._rest = ""
        if status == 503:  # noqa: PLR2004 - it may be starting, or stopping
            self.lost("the service takes no readers")
        elif status in LOST_BY_A_PROXY:
            self.lost(f"a proxy answered {status}")
        elif status >= 400:  # noqa: PLR2004 - HTTP's first error
            raise RequestRefused.of(status, Response(status, {}, body).document)
        elif status != 200:  # noqa: PLR2004 - the one that a stream has
            raise RequestRefused.not_understood(status, Response(status, {}, body).document)
        elif media_type.partition(";")[0].strip().lower() != EVENT_STREAM:
            # Else a page would be read to its end, again and again, in search of events.
            raise RequestRefused.not_understood(
                status, f"it is {media_type or 'of no type'}, not {EVENT_STREAM}"
            )

    def feed(self, text: str) -> Iterator[Event]:
        """Take a piece of the stream in; see `read`.

        Lines end as in the format: `str.splitlines`, and so httpx, would cut a key in two at U+2028.
        """
        *lines, self._rest = _LINE_END.split(self._rest + text)
        for line in lines:
            yield from self.read(line)

    def read(self, line: str) -> Iterator[Event]:
        """Take a line in; an empty one ends an event.

        Raises:
            RequestRefused: The event is none of a service's.
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
        """A connection broke.

        Raises:
            ServiceUnreachable: For too long now.
        """
        now = self._policy.clock()
        # From the loss on: the stream may have been silent for longer than one is patient.
        if self._give_up_at is None:
            self._give_up_at = now + self._policy.patience
        elif now > self._give_up_at:
            raise ServiceUnreachable(f"the event stream was not answered: {reason}")

    def pause(self) -> float:
        """How long to wait before the next connection, in seconds."""
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

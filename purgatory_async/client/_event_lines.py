"""Parse server-sent events, whatever carried them: text in, events out."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from purgatory_async.client._model import Event, RequestRefused

MAX_ID: Final = 64  # characters; the client returns it in a header
_ID: Final = re.compile(r"[!-~]+")  # what a header carries unchanged
_FIELDS: Final = frozenset({"id", "event", "data"})
_LINE_END: Final = re.compile(r"\r\n|\n|\r(?!\Z)")  # a last \r may be half of an end


class EventLines:
    """The place in a stream, and the event that is not yet whole.

    Args:
        after: The id of the last event known; None for events from now on.

    Attributes:
        last: The id of the last event read.

    Raises:
        ValueError: ``after`` cannot be an id.
    """

    def __init__(self, after: str | None) -> None:
        if after is not None and (_ID.fullmatch(after) is None or len(after) > MAX_ID):
            raise ValueError(
                f"after must be an event's id of 1 to {MAX_ID} visible ASCII characters, got {after!r:.80}"
            )
        self.last = after
        self._fields: dict[str, str] = {}
        self._rest = ""  # of an incomplete line

    def restart(self) -> None:
        """Drop what is not whole: the stream begins again behind the last event."""
        self._fields.clear()
        self._rest = ""

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

    def _alive(self) -> None:
        """Note that the stream has brought something."""

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

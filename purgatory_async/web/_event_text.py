"""Server-sent events as text: what goes over the wire, as the HTML standard's event streams are parsed."""

import re
from typing import Final

COMMENT: Final = b":\n\n"
"""What clients ignore, and proxies count as traffic."""

_LINE_END: Final = re.compile(
    rb"\r\n|\r|\n"
)  # no other: `bytes.splitlines` has the same, `str.splitlines` more
_ID: Final = re.compile(r"(.+)-([0-9]{1,18})", re.ASCII)
_MS_PER_SECOND: Final = 1000


def event_text(data: bytes, *, event: str | None = None, event_id: str | None = None) -> bytes:
    """Return an event whose data is parsed as it was, but that each line end becomes a newline. O(bytes).

    Args:
        data: UTF-8.
        event: Its name; None for a ``message``.
        event_id: What the client sends as ``Last-Event-ID`` when it comes back; None to leave that as it is.

    Raises:
        ValueError: A name or an id has a line end, or an id a NUL.
    """
    lines = [] if event_id is None else [b"id: %b" % _checked("id", event_id)]
    if event is not None:
        lines.append(b"event: %b" % _checked("event", event))
    lines += [b"data: %b" % line for line in _LINE_END.split(data)]
    return b"%b\n\n" % b"\n".join(lines)


def opening_text(retry: float, event_id: str | None) -> bytes:
    """Return how a stream begins, without an event.

    Args:
        retry: Seconds after which a client that lost the stream comes back.
        event_id: Where it then goes on, if it has had no event; None to leave that as it is.
    """
    place = b"" if event_id is None else b"id: %b\n" % _checked("id", event_id)
    return b"retry: %d\n%b\n" % (round(retry * _MS_PER_SECOND), place)


def gap_text(missed: int | None, event_id: str) -> bytes:
    """Return the event that tells a client how many events it missed, None if that is not known."""
    return event_text(
        b'{"missed": %b}' % (b"null" if missed is None else b"%d" % missed), event="gap", event_id=event_id
    )


def id_of(epoch: str, index: int) -> str:
    """Return the id of an event."""
    return f"{epoch}-{index}"


def index_of(event_id: str, epoch: str) -> int | None:
    """Return the index in an event's id; None if it is malformed, or of another epoch."""
    match = _ID.fullmatch(event_id)
    return int(match[2]) if match is not None and match[1] == epoch else None


def check_event_name(name: str) -> str:
    """Return the name of an event.

    Raises:
        TypeError: It is no text.
        ValueError: It has a line end.
    """
    if not isinstance(name, str):
        raise TypeError(f"event must be a name, a function that returns one, or None, got {name!r}")
    _checked("event", name)
    return name


def _checked(name: str, value: str) -> bytes:
    if any(end in value for end in "\r\n\0"):
        raise ValueError(f"{name} must be one line without NUL, got {value!r:.80}")
    return value.encode()

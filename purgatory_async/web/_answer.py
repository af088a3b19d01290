"""The answers to polls and the heads of streams, from which each framework makes its own responses."""

import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from reprlib import repr as short_repr
from typing import Any, Final

from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.errors import check_callback, check_result

Encode = Callable[[Any], object]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
EVENTS: Final = "text/event-stream"
CLIENT_CLOSED_REQUEST: Final = 499  # nginx's number, for access logs

# An answer holds for this moment only, and may depend on the Prefer header.
_ALWAYS: Final = (("Cache-Control", "no-store"), ("Vary", "Prefer"))
# nginx would gather the events, and compressing proxies as well.
_STREAMED: Final = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
_CLOSE: Final = ("Connection", "close")


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """One whole answer, or the head of a stream.

    Attributes:
        status: The HTTP status.
        body: Its bytes.
        media_type: The media type of the body; None without one.
        headers: All but the body's type and length.
    """

    status: int
    body: bytes = b""
    media_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def closes(self) -> bool:
        """Whether the connection must close after it."""
        return _CLOSE in self.headers

    def without_close(self) -> "PollAnswer":
        """Return it without ``Connection: close``, which HTTP/2 and 3 do not have."""
        return replace(self, headers=tuple(header for header in self.headers if header != _CLOSE))


def with_value(value: object, *headers: tuple[str, str], encode: Encode | None = None) -> PollAnswer:
    """Answer a wait that ended with a value.

    Args:
        value: The value.
        *headers: Extra headers.
        encode: Converts the value to what ``json.dumps`` takes, or to JSON as bytes; None if no conversion is needed.

    Raises:
        TypeError: JSON cannot carry the value.
        BaseException: Any exception of ``encode``.
    """
    return PollAnswer(200, encoded(value, encode), JSON, (*_ALWAYS, *headers))


def encoded(value: object, encode: Encode | None) -> bytes:
    """Return a value as JSON.

    Args:
        value: The value.
        encode: As for `with_value`.

    Raises:
        TypeError, BaseException: As `with_value`.
    """
    body = value if encode is None else encode(value)
    check_result("encode", encode, body)
    if encode is not None and isinstance(body, bytes):
        return body
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (RecursionError, TypeError, ValueError) as error:
        raise TypeError(
            f"a value must be what json.dumps takes, got {short_repr(body)} of type {type(body).__name__} "
            f"({error}); {_remedy(body) if encode is None else 'encode= must return it, or JSON as bytes'}"
        ) from error


def check_encode(encode: Encode | None) -> None:
    """Raise `TypeError` unless it is a plain function or None: after the wait is too late, the value would be lost."""
    if encode is not None:
        if not callable(encode):
            raise TypeError(f"encode must be a function or None, got {encode!r}")
        check_callback("encode", encode)


def check_range(name: str, value: tuple[float, float], usual: tuple[float, float]) -> None:
    """Validate the least and the most seconds of a random delay.

    Raises:
        TypeError: It is not a pair of numbers.
        ValueError: It is out of bounds.
    """
    try:
        least, most = value
        in_bounds = 0 <= least <= most <= MAX_TIMEOUT
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair of seconds like {usual}, got {value!r}") from None
    if not in_bounds:
        raise ValueError(f"{name} must rise, from 0 to {MAX_TIMEOUT:.0f} seconds, got {value!r}")


def _remedy(value: object) -> str:
    how = ", a function that returns what json.dumps takes"
    if isinstance(value, bytes):
        how = "bytes if it is JSON"
    elif is_dataclass(value) and not isinstance(value, type):
        how = "dataclasses.asdict"
    elif hasattr(value, "model_dump"):  # Pydantic's
        how = 'lambda value: value.model_dump(mode="json")'
    return f"pass encode={how}, or complete with what json.dumps takes"


def empty(*headers: tuple[str, str]) -> PollAnswer:
    """Answer a wait that ended without a value."""
    return PollAnswer(204, headers=(*_ALWAYS, *headers))


def malformed(sentence: str) -> PollAnswer:
    """Answer a malformed request; the sentence is one line of ASCII."""
    return PollAnswer(400, f"{sentence}\n".encode(), TEXT, _ALWAYS)


def full(retry_after: int) -> PollAnswer:
    """Refuse a poll while the purgatory is full; the client shall come back after so many seconds."""
    return PollAnswer(503, headers=(*_ALWAYS, ("Retry-After", str(retry_after))))


def closing(retry_after: int) -> PollAnswer:
    """Refuse a poll while the server stops or the purgatory is closed; else like `full`."""
    return PollAnswer(503, headers=(*_ALWAYS, ("Retry-After", str(retry_after)), _CLOSE))


def unread() -> PollAnswer:
    """Answer a client that disconnected."""
    return PollAnswer(CLIENT_CLOSED_REQUEST, headers=_ALWAYS)


def stream_head() -> PollAnswer:
    """Begin a stream of events; no request follows it on its connection."""
    return PollAnswer(200, b"", EVENTS, (*_STREAMED, _CLOSE))

"""The answer to a poll: status, headers and bytes, from which each framework makes its own response."""

import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from reprlib import repr as short_repr
from typing import Any, Final

from purgatory_async.errors import check_result

Encode = Callable[[Any], object]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
CLIENT_CLOSED_REQUEST: Final = 499  # nginx's number, for access logs

# An answer holds for this moment only, and may depend on the Prefer header.
_ALWAYS: Final = (("Cache-Control", "no-store"), ("Vary", "Prefer"))
_CLOSE: Final = ("Connection", "close")


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """One whole answer.

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
    body = value if encode is None else encode(value)
    check_result("encode", encode, body)
    if encode is None or not isinstance(body, bytes):
        try:
            text = json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
            body = text.encode()
        except (RecursionError, TypeError, ValueError) as error:
            raise TypeError(
                f"a poll's value must be what json.dumps takes, got {short_repr(body)} of type {type(body).__name__} "
                f"({error}); {_remedy(body) if encode is None else 'encode= must return it, or JSON as bytes'}"
            ) from error
    return PollAnswer(200, body, JSON, (*_ALWAYS, *headers))


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

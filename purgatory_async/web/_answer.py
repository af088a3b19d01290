"""What goes back: a status, headers and bytes, for any framework to make its own response of. Pure."""

import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from reprlib import repr as short_repr
from typing import Any, Final

Encode = Callable[[Any], object]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
CLIENT_CLOSED_REQUEST: Final = 499  # nginx's number; nobody reads it but whoever reads access logs
RETRY_SPREAD: Final = 10  # seconds over which those who are sent away come back

# An answer is about this moment, and what was asked for may stand in the Prefer header.
_ALWAYS: Final = (("Cache-Control", "no-store"), ("Vary", "Prefer"))
_CLOSE: Final = ("Connection", "close")


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer.

    Attributes:
        status: The HTTP status.
        body: Its bytes.
        media_type: Of the body; None without one.
        headers: The other headers, but for the length.
    """

    status: int
    body: bytes = b""
    media_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def closes(self) -> bool:
        """Whether the connection should not be used again."""
        return _CLOSE in self.headers

    def without_close(self) -> "Answer":
        """The same where connections are not the application's to close: HTTP/2 and 3 have no such header."""
        return replace(self, headers=tuple(header for header in self.headers if header != _CLOSE))


def with_value(value: object, *headers: tuple[str, str], encode: Encode | None = None) -> Answer:
    """The answer to a wait that has ended with a value.

    Args:
        value: What came.
        *headers: Beyond those of every answer.
        encode: Makes of it what JSON carries, or the JSON itself as bytes; None where it is that already.

    Raises:
        TypeError: JSON cannot carry the value.
        BaseException: What ``encode`` raised.
    """
    body = value if encode is None else encode(value)
    if encode is None or not isinstance(body, bytes):
        try:
            text = json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
            body = text.encode()
        except (RecursionError, TypeError, ValueError) as error:
            raise TypeError(
                f"a poll's value must be what json.dumps takes, got {short_repr(body)} of type {type(body).__name__} "
                f"({error}); {_remedy(body) if encode is None else 'encode= must return it, or JSON as bytes'}"
            ) from error
    return Answer(200, body, JSON, (*_ALWAYS, *headers))


def _remedy(value: object) -> str:
    how = ", a function that returns what json.dumps takes"
    if isinstance(value, bytes):
        how = "bytes if it is JSON"
    elif is_dataclass(value) and not isinstance(value, type):
        how = "dataclasses.asdict"
    elif hasattr(value, "model_dump"):  # Pydantic's
        how = 'lambda value: value.model_dump(mode="json")'
    return f"pass encode={how}, or complete with what json.dumps takes"


def empty(*headers: tuple[str, str]) -> Answer:
    """The answer to a wait that has ended without a value."""
    return Answer(204, headers=(*_ALWAYS, *headers))


def malformed(sentence: str) -> Answer:
    """The answer to a request that cannot be understood, with what is wrong in one line of ASCII."""
    return Answer(400, f"{sentence}\n".encode(), TEXT, _ALWAYS)


def full(fraction: float) -> Answer:
    """The answer while as many wait as may.

    Args:
        fraction: Random, from 0 to 1, so that those who come back do not come together.
    """
    return Answer(503, headers=(*_ALWAYS, _retry_after(fraction)))


def closing(fraction: float) -> Answer:
    """The answer of a server that stops, or whose purgatory is closed.

    Args:
        fraction: As for `full`.
    """
    return Answer(503, headers=(*_ALWAYS, _retry_after(fraction), _CLOSE))


def unread() -> Answer:
    """The answer to a client that has left."""
    return Answer(CLIENT_CLOSED_REQUEST, headers=_ALWAYS)


def _retry_after(fraction: float) -> tuple[str, str]:
    return ("Retry-After", str(min(int(fraction * RETRY_SPREAD) + 1, RETRY_SPREAD)))

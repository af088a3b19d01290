"""What goes back to the client: status, headers and a JSON body, in two ASGI messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.types import Send

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

# An answer is about this moment: nothing in between may keep it, and no browser may guess at its type.
_ALWAYS: Final = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer.

    Attributes:
        status: The HTTP status.
        body: Its bytes; empty for 204 and 304.
        media_type: Of the body.
        headers: Beyond those of every answer; never made of what a client sent.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return all header fields, as they go out."""
        headers = fields_of(self.headers)
        if self.body:
            headers.append((b"content-type", self.media_type.encode()))
        if self.status not in {204, 304}:
            headers.append((b"content-length", str(len(self.body)).encode()))
        return headers

    async def send_to(self, send: Send, *, head_only: bool = False) -> None:
        """Write the answer out.

        Args:
            send: The request's.
            head_only: Leave the body out, as for HEAD; the headers are those of the whole answer.
        """
        await send({"type": "http.response.start", "status": self.status, "headers": self.fields()})
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})


def fields_of(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return the header fields of every answer and these, as they go out."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in (*_ALWAYS, *headers)]


def answer(status: int, message: object, *headers: tuple[str, str]) -> Answer:
    """Encode a message as an answer.

    Args:
        status: The HTTP status.
        message: A struct of `messages`.
        headers: Beyond those of every answer.

    Returns:
        The answer, of type ``application/json``.
    """
    return Answer(status, msgspec.json.encode(message), headers=headers)

"""Answers: a status, headers and a JSON body, sent in two ASGI messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.types import Send

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

# An answer is a snapshot: no cache may store it, and no browser may guess its type.
_ALWAYS: Final = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer.

    Attributes:
        body: Empty for 204 and 304.
        headers: Extra headers; never built from client input.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return all header fields as sent."""
        headers = fields_of(self.headers)
        if self.body:
            headers.append((b"content-type", self.media_type.encode()))
        if self.status not in {204, 304}:
            headers.append((b"content-length", str(len(self.body)).encode()))
        return headers

    async def send_to(self, send: Send, *, head_only: bool = False) -> None:
        """Send the answer.

        Args:
            send: The request's.
            head_only: Omit the body but keep its headers, as for HEAD.
        """
        await send({"type": "http.response.start", "status": self.status, "headers": self.fields()})
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})


def fields_of(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return the header fields of every answer, then these, as sent."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in (*_ALWAYS, *headers)]


def answer(status: int, message: object, *headers: tuple[str, str]) -> Answer:
    """Encode a struct of `messages` as an answer of type ``application/json``."""
    return Answer(status, msgspec.json.encode(message), headers=headers)

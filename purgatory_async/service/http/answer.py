"""Answers: a status, headers and a JSON body, sent in two ASGI messages."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from purgatory_async.service.contract.header_fields import Field
from purgatory_async.web.asgi import Send

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

# An answer is a snapshot: no cache may store it, and no browser may guess its type.
_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class Replayable(Protocol):
    """The answer to a change."""

    @property
    def replayed(self) -> bool:
        """Whether an earlier request with the same Idempotency-Key made the change."""
        ...


class Answer(msgspec.Struct, frozen=True):
    """A complete answer.

    Attributes:
        body: Empty for 204 and 304.
        headers: Extra headers; never built from client input.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def sent(self) -> int:
        """The length of the body in bytes."""
        return len(self.body)

    def fields(self) -> list[Field]:
        """Return all header fields as sent."""
        headers = fields_of(self.headers)
        if self.body:
            headers.append((b"content-type", self.media_type.encode()))
        if self.status not in {204, 304}:
            headers.append((b"content-length", str(len(self.body)).encode()))
        return headers

    async def send_to(self, send: Send, *, head_only: bool = False, stamp: Sequence[Field] = ()) -> None:
        """Send the answer.

        Args:
            send: The request's.
            head_only: Omit the body but keep its headers, as for HEAD.
            stamp: Further header fields.
        """
        headers = [*self.fields(), *stamp]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})


def fields_of(headers: Iterable[tuple[str, str]]) -> list[Field]:
    """Return the header fields of every answer, then these, as sent."""
    return [*_ALWAYS, *[(name.lower().encode(), value.encode("latin-1")) for name, value in headers]]


def answer(status: int, message: object, *headers: tuple[str, str]) -> Answer:
    """Encode a struct of `messages` as an answer of type ``application/json``."""
    return Answer(status, msgspec.json.encode(message), headers=headers)


def replayed(result: Replayable) -> tuple[tuple[str, str], ...]:
    """Return the header field of a replayed answer, if an earlier request had the same effect."""
    return (("Idempotency-Replayed", "true"),) if result.replayed else ()

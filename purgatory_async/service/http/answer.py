"""Answers: a status, headers and a JSON body, and the bytes before the body."""

import math
from collections.abc import Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.contract.http_problems import CLOSING

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
# An answer is a snapshot: no cache may store it, and no browser may guess its type.
ALWAYS: Final = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
_BARE: Final = frozenset({204, 304})
CLOSE: Final = b"connection: close\r\n"


REPLAYED: Final = ("Idempotency-Replayed", "true")
"""The header field of an answer to what was done before."""


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
        close: Whether no other request may follow on the connection.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    close: bool = False

    @property
    def lines(self) -> bytes:
        """All header fields that are its own, as sent."""
        content = _content(self.status, self.media_type if self.body else None)
        length = b"%d\r\n" % len(self.body) if self.body else b""
        return field_lines(self.headers) + content + length


class AnswerHeads:
    """The heads of answers, prepared for a second: the status line, the date, and the fields of all.

    Args:
        date: Returns the date as HTTP shows it; it is asked once a second.
    """

    def __init__(self, date: Callable[[], str]) -> None:
        self._date: Final = date
        self._stale = -math.inf  # when what is known has an old date
        self._known: dict[tuple[int, str | None], bytes] = {}

    def of(self, status: int) -> bytes:
        """Return what an answer of a status begins with, new each time."""
        return b"%bdate: %b\r\n%b" % (_STATUS_LINES[status], self._date().encode(), ALWAYS)

    def sent(self, answer: Answer, lines: bytes, now: float, body: bytes) -> bytes:
        """Return an answer as sent, in one piece. O(bytes).

        Args:
            answer: The answer.
            lines: Further fields, as sent.
            now: Seconds of any clock: the date changes with the whole second.
            body: Its body; empty if only the head is asked for.
        """
        if now >= self._stale:
            self._stale, self._known = int(now) + 1.0, {}
        size = len(answer.body)
        place = answer.status, answer.media_type if size else None
        opening = self._known.get(place) or self._make(*place)
        if answer.headers:
            lines = field_lines(answer.headers) + lines
        return b"%b%d\r\n%b\r\n%b" % (opening, size, lines, body) if size else b"%b%b\r\n" % (opening, lines)

    def _make(self, status: int, media_type: str | None) -> bytes:
        opening = self._known[status, media_type] = self.of(status) + _content(status, media_type)
        return opening


def _content(status: int, media_type: str | None) -> bytes:
    """Return the fields of a body of some type, up to its length; of an empty one all."""
    if media_type is None:
        return b"" if status in _BARE else b"content-length: 0\r\n"
    return b"content-type: %b\r\ncontent-length: " % media_type.encode()


def http_date() -> str:
    """Return the present date as HTTP shows it."""
    return formatdate(usegmt=True)


def field_lines(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return header fields as sent.

    Raises:
        RuntimeError: A value would end its line.
    """
    lines = [f"{name.lower()}: {value}\r\n" for name, value in headers]
    block = "".join(lines).encode("latin-1")
    if block.count(b"\n") != len(lines) or block.count(b"\r") != len(lines):
        raise RuntimeError(f"header fields must be lines without breaks, got {block!r}")
    return block


def fields_in(lines: bytes) -> list[Field]:
    """Return the fields of lines, as ASGI wants them. O(lines)."""
    fields: list[Field] = []
    for line in lines.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b": ")
        fields.append((name, value))
    return fields


def answer(status: int, message: object, *headers: tuple[str, str]) -> Answer:
    """Encode a struct of `messages` as an answer of type ``application/json``."""
    return Answer(status, msgspec.json.encode(message), headers=headers)


def refusal(problem: Problem, *headers: tuple[str, str]) -> Answer:
    """Return a problem as an answer."""
    body, given = msgspec.json.encode(problem.document), (*problem.headers, *headers)
    return Answer(problem.kind.status, body, PROBLEM_JSON, given, close=problem.kind in CLOSING)


def replayed(result: Replayable) -> tuple[tuple[str, str], ...]:
    """Return the header field of a replayed answer, if an earlier request had the same effect."""
    return (REPLAYED,) if result.replayed else ()

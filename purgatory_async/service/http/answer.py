"""Answers: a status, headers and a JSON body, and the bytes before the body."""

from collections.abc import Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.contract.problems import CLOSING, Problem

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
# An answer is a snapshot: no cache may store it, and no browser may guess its type.
ALWAYS: Final = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
_BARE: Final = frozenset({204, 304})
_CLOSE: Final = b"connection: close\r\n"


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
        lines = field_lines(self.headers) if self.headers else b""
        if self.body:
            return b"%bcontent-type: %b\r\ncontent-length: %d\r\n" % (
                lines,
                self.media_type.encode(),
                len(self.body),
            )
        return lines if self.status in _BARE else lines + b"content-length: 0\r\n"


class Openings:
    """What answers of each status begin with: the status line, the date, and the fields of all.

    Args:
        date: Returns the date as HTTP shows it; it is asked once a second.
    """

    def __init__(self, date: Callable[[], str]) -> None:
        self._date: Final = date
        self._second = -1
        self._known: dict[int, bytes] = {}

    def of(self, status: int, now: float) -> bytes:
        """Return the opening of a status. O(1).

        Args:
            status: HTTP's.
            now: Seconds of any clock: the date changes with the whole second.
        """
        second = int(now)
        if second != self._second:
            self._second, self._known = second, {}
        opening = self._known.get(status)
        if opening is None:
            opening = b"%bdate: %b\r\n%b" % (_STATUS_LINES[status], self._date().encode(), ALWAYS)
            self._known[status] = opening
        return opening


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


def head_of(opening: bytes, lines: bytes, *, close: bool) -> bytes:
    """Return all before the body."""
    return b"%b%b%b\r\n" % (opening, lines, _CLOSE) if close else b"%b%b\r\n" % (opening, lines)


def answer(status: int, message: object, *headers: tuple[str, str]) -> Answer:
    """Encode a struct of `messages` as an answer of type ``application/json``."""
    return Answer(status, msgspec.json.encode(message), headers=headers)


def refusal(problem: Problem, *headers: tuple[str, str]) -> Answer:
    """Return a problem as an answer."""
    body, given = msgspec.json.encode(problem.document), (*problem.headers, *headers)
    return Answer(problem.kind.status, body, PROBLEM_JSON, given, close=problem.kind in CLOSING)


def replayed(result: Replayable) -> tuple[tuple[str, str], ...]:
    """Return the header field of a replayed answer, if an earlier request had the same effect."""
    return (("Idempotency-Replayed", "true"),) if result.replayed else ()

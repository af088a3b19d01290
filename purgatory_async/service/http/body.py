"""Finds where a request's body ends: after its length, or after its last chunk (RFC 9112, 6.2 and 7.1).

The chunk grammar is strict: a hexadecimal size without white space, CRLF after each line and chunk. Trailer fields are
checked and dropped. The body's size does not bound the number of chunks, the length of their lines, or the trailers:
each has a limit here.
"""

import re
from typing import Final, Protocol

from purgatory_async.durable.documents import problems
from purgatory_async.service.contract import http_problems
from purgatory_async.service.http.head import are_fields

MAX_CHUNKS: Final = 8192  # of one body; a megabyte in pieces of 128 bytes
MAX_CHUNK_LINE: Final = 256  # bytes, with its CRLF
MAX_TRAILERS: Final = 4096  # bytes of all trailer fields, with their CRLFs

_CRLF: Final = b"\r\n"
# Fields forbidden in trailers (RFC 9110, 6.5.1): framing, routing, authentication and content format.
_NO_TRAILERS: Final = frozenset(
    {
        *(b"content-length", b"transfer-encoding", b"trailer", b"te", b"host", b"expect", b"connection"),
        *(b"authorization", b"content-encoding", b"content-type", b"content-range"),
    }
)
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_CHUNK: Final = re.compile(
    rb"([0-9A-Fa-f]{1,8}+)(?:;" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb"|\"[\t !#-\[\]-~]*+\"))?+)*+\r\n"
)


class Body(Protocol):
    """The unread part of a body."""

    @property
    def ended(self) -> bool:
        """Whether the whole body was taken."""
        ...

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Split received bytes into the body's content and the bytes after its end.

        Raises:
            Problem: ``malformed-request``; do not use the body again.
        """
        ...


class SizedBody:
    """A body of known length, in bytes, above 0."""

    __slots__ = ("left",)

    def __init__(self, length: int) -> None:
        self.left = length

    @property
    def ended(self) -> bool:
        """Whether the whole body was taken."""
        return not self.left

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Split received bytes; see `Body`. O(length)."""
        if len(data) <= self.left:
            self.left -= len(data)
            return data, b""
        content, behind = data[: self.left], data[self.left :]
        self.left = 0
        return content, behind


class ChunkedBody:
    r"""A body in chunks.

    Example:
        >>> body = ChunkedBody()
        >>> body.take(b"5;why=not\r\nhe"), body.ended
        ((b'he', b''), False)
        >>> body.take(b"llo\r\n0\r\n\r\nGET /"), body.ended
        ((b'llo', b'GET /'), True)
    """

    __slots__ = ("_chunks", "_held", "_last", "_left", "_mark", "_spare", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._chunks = 0
        self._held = b""  # an incomplete line
        self._left = 0  # bytes of this chunk
        self._mark = b""  # the unread part of the CRLF after it
        self._last = False
        self._spare = MAX_TRAILERS + len(_CRLF)  # bytes that may follow the last chunk

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Split received bytes; see `Body`. O(length)."""
        if self._held:
            data, self._held = self._held + data, b""
        content: list[bytes] = []
        place = 0
        while place < len(data) and not self.ended:
            if self._left:
                piece = data[place : place + self._left]
                content.append(piece)
                place += len(piece)
                self._left -= len(piece)
            elif self._mark:
                place = self._pass_mark(data, place)
            elif self._last:
                place = self._pass_trailer(data, place)
            else:
                place = self._begin_chunk(data, place)
        return b"".join(content), data[place:]

    def _begin_chunk(self, data: bytes, place: int) -> int:
        """Read a chunk's line, or hold its beginning; return the next position."""
        end = data.find(b"\n", place, place + MAX_CHUNK_LINE) + 1
        if not end:
            self._held = data[place : place + MAX_CHUNK_LINE]
            if len(self._held) == MAX_CHUNK_LINE:
                raise http_problems.malformed_request(
                    f"a chunk's line must be at most {MAX_CHUNK_LINE} bytes, got more"
                )
            return len(data)
        line = _CHUNK.fullmatch(data, place, end)
        if line is None:
            raise http_problems.malformed_request(
                f"expected a hexadecimal chunk size, got {problems.shown(data[place:end])}"
            )
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            raise http_problems.malformed_request(f"a body must have at most {MAX_CHUNKS} chunks, got more")
        self._left = int(line[1], 16)
        self._last = not self._left
        self._mark = b"" if self._last else _CRLF
        return end

    def _pass_trailer(self, data: bytes, place: int) -> int:
        """Skip a trailer field, or the empty line that ends the body; return the next position."""
        end = data.find(b"\n", place, place + self._spare) + 1
        if not end:
            self._held = data[place : place + self._spare]
            if len(self._held) == self._spare:
                raise http_problems.malformed_request(
                    f"trailer fields must be at most {MAX_TRAILERS} bytes, got more"
                )
            return len(data)
        line = data[place:end]
        self._spare -= len(line)
        self.ended = line == _CRLF
        name = line.partition(b":")[0]  # an error never shows the value, which may be a token
        if not self.ended and (not are_fields(line, 1) or name.lower() in _NO_TRAILERS):
            raise http_problems.malformed_request(
                "the last chunk must be followed by an empty line, or by trailer fields other than framing, "
                f"routing and authentication, got {problems.shown(name)}"
            )
        return end

    def _pass_mark(self, data: bytes, place: int) -> int:
        """Skip the CRLF after a chunk, as far as received; return the next position."""
        there = data[place : place + len(self._mark)]
        if not self._mark.startswith(there):
            raise http_problems.malformed_request(f"a chunk must end with CRLF, got {problems.shown(there)}")
        self._mark = self._mark[len(there) :]
        return place + len(there)

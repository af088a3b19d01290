"""Where the body of a request ends: after so many bytes, or after its last chunk (RFC 9112, 6.2 and 7.1).

Chunks are taken by the letter too: sizes in hexadecimal and nothing around them, a CRLF after each line and each
chunk. Trailer fields are checked and ignored: the request was judged by its head. What is not bounded by the size of
the body is bounded here: the number of chunks, the length of a chunk's line with its extensions, and the trailers.
"""

import re
from typing import Final, Protocol

from purgatory_async.service import problems
from purgatory_async.service.head import are_fields

MAX_CHUNKS: Final = 8192  # of one body; a megabyte in pieces of 128 bytes
MAX_CHUNK_LINE: Final = 256  # bytes, with its CRLF
MAX_TRAILERS: Final = 4096  # bytes of all trailer fields, with their CRLFs

_CRLF: Final = b"\r\n"
# What no trailer may change (RFC 9110, 6.5.1): framing, routing, authentication and the form of the content.
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
    """What is still to come of a body."""

    @property
    def ended(self) -> bool:
        """Whether all of it was taken."""

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take what has come.

        Args:
            data: What follows what was taken before.

        Returns:
            What of it is content, and what of it lies behind the body's end.

        Raises:
            Problem: ``malformed-request``; the body is of no use any longer.
        """


class SizedBody:
    """A body of a length that is known.

    Args:
        length: In bytes, above 0.
    """

    __slots__ = ("left",)

    def __init__(self, length: int) -> None:
        self.left = length

    @property
    def ended(self) -> bool:
        """Whether all of it was taken."""
        return not self.left

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take what has come; see `Body`. O(length)."""
        if len(data) <= self.left:
            self.left -= len(data)
            return data, b""
        content, behind = data[: self.left], data[self.left :]
        self.left = 0
        return content, behind


class ChunkedBody:
    r"""A body that comes in chunks.

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
        self._held = b""  # the beginning of a line
        self._left = 0  # bytes of this chunk
        self._mark = b""  # what is to come of the CRLF behind it
        self._last = False
        self._spare = MAX_TRAILERS + len(_CRLF)  # bytes that may follow the last chunk

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take what has come; see `Body`. O(length)."""
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
        """Read a chunk's line, or keep what there is of it; returns where to go on."""
        end = data.find(b"\n", place, place + MAX_CHUNK_LINE) + 1
        if not end:
            self._held = data[place : place + MAX_CHUNK_LINE]
            if len(self._held) == MAX_CHUNK_LINE:
                raise problems.malformed_request(
                    f"the line before a chunk is longer than {MAX_CHUNK_LINE} bytes"
                )
            return len(data)
        line = _CHUNK.fullmatch(data, place, end)
        if line is None:
            raise problems.malformed_request(
                f"before a chunk stands its size in hexadecimal, got {problems.shown(data[place:end])}"
            )
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            raise problems.malformed_request(f"the body has more than {MAX_CHUNKS} chunks")
        self._left = int(line[1], 16)
        self._last = not self._left
        self._mark = b"" if self._last else _CRLF
        return end

    def _pass_trailer(self, data: bytes, place: int) -> int:
        """Pass a trailer field or the empty line that ends the body; returns where to go on."""
        end = data.find(b"\n", place, place + self._spare) + 1
        if not end:
            self._held = data[place : place + self._spare]
            if len(self._held) == self._spare:
                raise problems.malformed_request(
                    f"trailer fields must be at most {MAX_TRAILERS} bytes, got more"
                )
            return len(data)
        line = data[place:end]
        self._spare -= len(line)
        self.ended = line == _CRLF
        name = line.partition(b":")[0]  # and no more of it in a refusal: it may be a token's
        if not self.ended and (not are_fields(line, 1) or name.lower() in _NO_TRAILERS):
            raise problems.malformed_request(
                "behind the last chunk must be an empty line, or trailer fields without framing, routing or "
                f"authentication, got {problems.shown(name)}"
            )
        return end

    def _pass_mark(self, data: bytes, place: int) -> int:
        """Pass what there is of the CRLF behind a chunk; returns where to go on."""
        there = data[place : place + len(self._mark)]
        if not self._mark.startswith(there):
            raise problems.malformed_request(f"a chunk ends with CRLF, got {problems.shown(there)}")
        self._mark = self._mark[len(there) :]
        return place + len(there)

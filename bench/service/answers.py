"""Cutting what a connection brings into HTTP answers: as much of the protocol as a client here needs.

A client that measures 15 000 connections must be cheap, or it measures itself. So there is no library in between,
and an answer that is not framed by a length is refused, not understood.
"""

import re
from dataclasses import dataclass

__all__ = ["Answer", "is_whole", "take_answer"]

_HEAD_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3})\b")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)
_BODILESS = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer.

    Attributes:
        status: The HTTP status.
        body: All of it.
        last: Whether no other follows it on its connection.
    """

    status: int
    body: bytes
    last: bool = False


def take_answer(buffer: bytearray) -> Answer | None:
    """Take the first answer off what has come. O(its bytes).

    Args:
        buffer: What has come and was not taken; loses the answer.

    Returns:
        The answer, None while some of it is missing.

    Raises:
        ValueError: It is not an HTTP/1.1 answer with a length.
    """
    head_end = buffer.find(_HEAD_END) + len(_HEAD_END)
    if head_end < len(_HEAD_END):
        return None
    found = _STATUS.match(buffer)
    if found is None:
        raise ValueError(f"an answer must begin with HTTP/1.1 and a status, got {bytes(buffer[:40])!r}")
    status = int(found[1])
    length = _LENGTH.search(buffer, 0, head_end)
    if length is None and status not in _BODILESS:
        raise ValueError(f"an answer must have a Content-Length, got {bytes(buffer[:head_end])!r}")
    end = head_end + (int(length[1]) if length is not None and status not in _BODILESS else 0)
    if len(buffer) < end:
        return None
    body = bytes(buffer[head_end:end])
    last = _CLOSE.search(buffer, 0, head_end) is not None
    del buffer[:end]
    return Answer(status, body, last)


def is_whole(received: bytes) -> bool:
    """Return whether what has come is one whole answer with a length. O(its bytes).

    Raises:
        ValueError: It is longer, or it is no answer with a length.
    """
    head_end = received.find(_HEAD_END) + len(_HEAD_END)
    if head_end < len(_HEAD_END):
        return False
    length = _LENGTH.search(received, 0, head_end)
    if length is None:
        raise ValueError(f"an answer must have a Content-Length, got {received[:head_end]!r}")
    left = head_end + int(length[1]) - len(received)
    if left < 0:
        raise ValueError(f"expected one answer, got {-left} bytes more: {received!r}")
    return not left

"""Frames: four bytes of length, then as many bytes. From a socket's buffers to whole requests.

Small frames are cut from a buffer that all connections of a broker share, since each reads and cuts in one step. A
frame that the buffer does not hold is received into memory of its own, without another copy.
"""

from collections import deque
from struct import Struct
from typing import Final

from purgatory_async.kafka.errors import MalformedRequestError

__all__ = ["Frame", "FrameReader"]

Frame = bytes | memoryview

_LENGTH: Final = Struct(">i")
_FIRST_BYTES: Final = 1 << 16  # memory for a long frame, before more than its length has come
_GROWTH: Final = 4


class FrameReader:
    """Cuts a connection's bytes into frames.

    Args:
        scratch: Receives what belongs to no large frame; may be shared by readers of one thread.
        max_frame_bytes: The longest frame allowed.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_head",
        "_length",
        "_max_frame_bytes",
        "_scratch",
        "ready",
        "ready_bytes",
    )

    def __init__(self, scratch: memoryview, max_frame_bytes: int) -> None:
        self.ready: deque[Frame] = deque()
        self.ready_bytes = 0
        self._scratch = scratch
        self._max_frame_bytes = max_frame_bytes
        self._head = b""  # of a length that came in parts
        self._frame: bytearray | None = None  # one that came in part; grows as it comes
        self._filled = 0
        self._length = 0

    def buffer(self) -> memoryview:
        """Where to receive the next bytes; valid until `received`."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return self._scratch

    def received(self, count: int) -> None:
        """Take ``count`` bytes that were written to `buffer`. O(bytes).

        Raises:
            MalformedRequestError: A frame's length is negative or above the bound.
        """
        if self._frame is not None:
            self._filled += count
            if self._filled == self._length:
                self._add(memoryview(self._frame).toreadonly())  # kio takes nothing that may change
                self._frame = None
            elif self._filled == len(self._frame):
                self._grow(self._frame)
            return
        data = self._scratch[:count] if not self._head else memoryview(self._head + self._scratch[:count])
        at = 0
        while count_left := len(data) - at:
            if count_left < _LENGTH.size:
                break
            at += _LENGTH.size
            length = self._checked(_LENGTH.unpack_from(data, at - _LENGTH.size)[0])
            if at + length > len(data):
                self._begin(length, data[at:])
                at = len(data)
            else:
                self._add(bytes(data[at : at + length]))
                at += length
        self._head = bytes(data[at:])

    def take(self) -> Frame:
        """Remove and return the oldest ready frame. O(1)."""
        frame = self.ready.popleft()
        self.ready_bytes -= len(frame)
        return frame

    def _add(self, frame: Frame) -> None:
        self.ready.append(frame)
        self.ready_bytes += len(frame)

    def _begin(self, length: int, part: memoryview) -> None:
        self._frame = bytearray(min(length, max(_FIRST_BYTES, _GROWTH * len(part))))
        self._frame[: len(part)] = part
        self._filled = len(part)
        self._length = length

    def _grow(self, full: bytearray) -> None:
        # Into new memory: the loop still holds a view of the old one, which so cannot be resized.
        self._frame = bytearray(min(self._length, _GROWTH * len(full)))
        self._frame[: len(full)] = full

    def _checked(self, length: int) -> int:
        if not 0 <= length <= self._max_frame_bytes:
            raise MalformedRequestError(f"a frame must be 0 to {self._max_frame_bytes} bytes, got {length}")
        return length

"""Frames: four bytes of length, then as many bytes. From a socket's buffers to whole requests.

Small frames are cut from a buffer that all connections of a broker share, since each reads and cuts in one step. A
frame that the buffer does not hold is received into memory of its own, without another copy.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.errors import MalformedRequestError
from purgatory_async.kafka.inbox import Inbox

__all__ = ["Frame", "FrameReader"]

Frame = bytes | memoryview

_LENGTH: Final = Struct(">i")
_FIRST_BYTES: Final = 1 << 16  # memory for a long frame, before more than its length has come
_GROWTH: Final = 4
_TIGHT_BYTES: Final = 1 << 12  # to receive at once while the inbox is full


class FrameReader:
    """Cuts a connection's bytes into frames.

    Args:
        scratch: Receives what belongs to no large frame; may be shared by readers of one thread.
        max_frame_bytes: The longest frame allowed.
        inbox: Counts the memory of frames, of all readers together.
        resumed: Called when it has memory again after it was `starved`.
        cut: Called when it stands still, and others wait for its memory.
    """

    __slots__ = (
        *("_cut", "_filled", "_frame", "_head", "_inbox", "_length", "_max_frame_bytes", "_resumed"),
        *("_scratch", "ready", "ready_bytes", "starved"),
    )

    def __init__(
        self,
        scratch: memoryview,
        max_frame_bytes: int,
        inbox: Inbox,
        *,
        resumed: Callable[[], object],
        cut: Callable[[], object],
    ) -> None:
        self.ready: deque[Frame] = deque()
        self.ready_bytes = 0
        self.starved = False  # whether there is no memory for more bytes: do not receive
        self._scratch = scratch
        self._max_frame_bytes = max_frame_bytes
        self._inbox = inbox
        self._resumed = resumed
        self._cut = cut
        self._head = b""  # of a length that came in parts
        self._frame: bytearray | None = None  # one that came in part; grows as it comes
        self._filled = 0
        self._length = 0

    @property
    def received_bytes(self) -> int:
        """Of the frame that came in part."""
        return self._filled

    def buffer(self) -> memoryview:
        """Where to receive the next bytes; valid until `received`."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return self._scratch if self._inbox.has_room else self._scratch[:_TIGHT_BYTES]

    def received(self, count: int) -> None:
        """Take ``count`` bytes that were written to `buffer`. O(bytes).

        Raises:
            MalformedRequestError: A frame's length is negative or above the bound.
        """
        if self._frame is not None:
            self._filled += count
            if self._filled == self._length:
                frame = memoryview(self._frame).toreadonly()  # kio takes nothing that may change
                self._frame = None
                self._filled = 0
                self.ready.append(frame)
                self.ready_bytes += len(frame)
                self._inbox.leave(self)
            elif self._filled == len(self._frame):
                self.go_on()
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
        self._inbox.give(len(frame))
        return frame

    def clear(self) -> None:
        """Drop all frames, whole or not. O(frames)."""
        held_bytes = self.ready_bytes + len(self._frame or b"")
        self.ready.clear()
        self.ready_bytes = self._filled = 0
        self._frame = None
        self._inbox.leave(self)
        self._inbox.give(held_bytes)

    def go_on(self) -> None:
        """Take memory for more of the frame that came in part; without any, wait to be called again."""
        full = self._frame
        assert full is not None, f"{self!r} has no frame to go on with"
        size_bytes = min(self._length, max(_FIRST_BYTES, _GROWTH * len(full)))
        before, self.starved = self.starved, not self._inbox.take(size_bytes - len(full), self)
        if not self.starved:
            # Into new memory: the loop still holds a view of the old one, which so cannot be resized.
            self._frame = bytearray(size_bytes)
            self._frame[: len(full)] = full
            if before:
                self._resumed()

    def cut(self) -> None:
        """End the connection: it stands still, and others wait for its memory."""
        self._cut()

    def _add(self, frame: Frame) -> None:
        self.ready.append(frame)
        self.ready_bytes += len(frame)
        self._inbox.add(len(frame))

    def _begin(self, length: int, part: memoryview) -> None:
        self._frame = bytearray(part)
        self._filled = len(part)
        self._length = length
        self._inbox.add(len(part))
        self.go_on()

    def _checked(self, length: int) -> int:
        if not 0 <= length <= self._max_frame_bytes:
            raise MalformedRequestError(
                f"a frame must be 0 to {self._max_frame_bytes} bytes, got {length}", Absence.of_length(length)
            )
        return length

"""The sending side of a connection: what the system has yet to take, and a client that takes nothing.

A transport keeps what it was given until the last byte of it has gone. So a long answer reaches it in pieces, each
once there is room: memory then holds what is unsent, and no more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from purgatory_async.service.http.context import Allowed, ServerContext, Watched

PIECE_BYTES: Final = 65_536


class Outlet(Watched):
    """The sending side; its owner sets the transport."""

    __slots__ = ("_last_step", "_paused", "_pieces", "_transport", "_unread", "_writable")

    _transport: asyncio.Transport

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context)
        self._paused = False  # until the client reads
        self._writable: asyncio.Future[None] | None = None  # for those that wait for it
        self._unread = 0  # bytes unsent at the last check
        self._pieces: deque[bytes] | None = None  # that the transport has no room for
        self._last_step: Callable[[], None] | None = None  # once it has taken them

    @property
    def unsent(self) -> int:
        """The bytes that were written and not yet taken by the system. O(pieces)."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._pieces or ()))

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is closing. O(bytes)."""
        transport, size = self._transport, len(data)
        if transport.is_closing() or self._last_step is not None:
            return
        if self._pieces is None and size <= PIECE_BYTES:
            transport.write(data)
        else:
            pieces = self._pieces = self._pieces or deque()
            pieces.extend(data[at : at + PIECE_BYTES] for at in range(0, size, PIECE_BYTES))
            self._feed()
        self.context.unsent.note(self, size)

    def finish(self, step: Callable[[], None]) -> None:
        """End the sending side in some way, after all that was written."""
        if self._pieces is None:
            step()
        else:
            self._last_step = step

    def _feed(self) -> None:
        """Give the transport pieces as long as it has room."""
        pieces = self._pieces
        while pieces and not self._paused:
            self._transport.write(pieces.popleft())
        if not pieces and pieces is not None:
            self._pieces = None
            step, self._last_step = self._last_step, None
            if step is not None:
                step()

    @property
    def blocked(self) -> bool:
        """Whether the client must read before more is written."""
        return self._paused or self._pieces is not None

    async def writable(self) -> None:
        """Wait until the write buffer has room."""
        while self.blocked:
            if self._writable is None:
                self._writable = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._writable)

    def pause_writing(self) -> None:
        """Block `writable` until the client reads, with a deadline."""
        self._paused = True
        self._expect_reading()

    def resume_writing(self) -> None:
        """Send on, and unblock `writable` once the transport has all."""
        self._paused = False
        self._feed()
        if not self.blocked:
            self._unblock()
        self._watch()

    def cut(self) -> None:
        """Abort, so that the client does not take a partial answer as complete."""
        self._transport.abort()

    def _stall_allowed(self) -> Allowed:
        """Return the deadline while the client should read; None while it need not."""
        if self._paused or self._transport.is_closing():
            return self.context.deadlines.stall, Outlet._stalled
        return None

    def _expect_reading(self) -> None:
        """Start the time in which the client must take something."""
        self._unread = self.unsent
        self._watch()

    def _stalled(self) -> None:
        unread = self.unsent
        if unread < self._unread:  # slow but reading
            self._expect_reading()
            return
        if unread:
            seconds = self.context.deadlines.stall
            self.context.unsent.cut += 1
            self.context.log.warning("client cut: it takes nothing", unsent=unread, seconds=seconds)
        self.cut()

    def _lose(self) -> None:
        """Drop what was not sent, and end every wait for it."""
        self._paused, self._pieces, self._last_step = False, None, None
        self._unblock()

    def _unblock(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

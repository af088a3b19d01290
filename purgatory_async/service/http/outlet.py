"""The sending side of a connection: what the system has yet to take, and a client that takes nothing."""

import asyncio

from purgatory_async.service.http.context import Allowed, Watched

__all__ = ["Outlet"]


class Outlet(Watched):
    """The sending side; its owner sets the transport."""

    __slots__ = ("_transport", "_unread", "_writable")

    _transport: asyncio.Transport

    def __init__(self) -> None:
        super().__init__()
        self._writable: asyncio.Future[None] | None = None  # until the client reads
        self._unread = 0  # bytes in the write buffer at the last check

    @property
    def unsent(self) -> int:
        """The bytes that were written and not yet taken by the system."""
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is closing."""
        if not self._transport.is_closing():
            self._transport.write(data)
            self.context.unsent.note(self, len(data))

    async def writable(self) -> None:
        """Wait until the write buffer has room."""
        while self._writable is not None:
            await asyncio.shield(self._writable)

    def pause_writing(self) -> None:
        """Block `writable` until the client reads, with a deadline."""
        self._writable = asyncio.get_running_loop().create_future()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Unblock `writable`."""
        self._let_write()
        self._watch()

    def cut(self) -> None:
        """Abort, so that the client does not take a partial answer as complete."""
        self._transport.abort()

    def _stall_allowed(self) -> Allowed:
        """Return the deadline while the client should read; None while it need not."""
        if self._writable is not None or self._transport.is_closing():
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

    def _let_write(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

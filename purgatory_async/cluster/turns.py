"""Calls on one connection: one at a time, each with a time limit; closing ends them all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from purgatory_async.cluster.log import LogUnavailable

__all__ = ["CALL_S", "Turns"]

CALL_S: Final = 10.0
"""Seconds after which a call to the server has failed."""


class Turns:
    """Lets one call at a time use a connection.

    A client library's connection must not be closed while a call uses it: the call may then connect again, or release
    the connection twice. So closing ends the call under way first, refuses those behind it, and waits until all have
    left.
    """

    __slots__ = ("_limit", "_lock", "closed")

    def __init__(self) -> None:
        self.closed = False
        self._lock = asyncio.Lock()
        self._limit: asyncio.Timeout | None = None

    @property
    def taken(self) -> bool:
        """Whether a call is under way."""
        return self._lock.locked()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, which ends with `TimeoutError` after `CALL_S`, or when it is closed.

        Raises:
            LogUnavailable: It was closed before.
        """
        async with self._lock:
            if self.closed:
                raise LogUnavailable("log is closed: cannot use its connection")
            try:
                async with asyncio.timeout(CALL_S) as self._limit:
                    yield
            finally:
                self._limit = None

    async def aclose(self) -> None:
        """End the call under way, also one that connects; return once no call uses the connection."""
        self.closed = True
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)
        async with self._lock:  # its queue is fair: those that waited before have been refused
            pass

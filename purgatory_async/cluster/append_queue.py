"""Batches that wait at the same time share one round trip to the engine."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from purgatory_async.cluster.log import MAX_BATCH_BYTES, MAX_BATCH_ENTRIES, Appended, LogError

__all__ = ["AppendQueue"]


class _Waiting(NamedTuple):
    """A batch that waits for its turn."""

    entries: Sequence[bytes]
    appended: asyncio.Future[Appended]


class AppendQueue:
    """Send batches in order, one group of them at a time.

    Args:
        send: Appends the entries of a group: all of them or none.
    """

    def __init__(self, send: Callable[[Sequence[bytes]], Awaitable[Appended]]) -> None:
        self._send = send
        self._waiting: deque[_Waiting] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """Return the positions of a batch, or raise what `send` did. A batch that was sent outlives its caller."""
        waiting = _Waiting(entries, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        return await waiting.appended

    async def aclose(self) -> None:
        """Stop sending; waiting callers get `LogError`."""
        _fail(self._waiting, LogError("log is closed: cannot append"))
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                # One turn later, so that all callers that woke in this one share the round trip.
                await asyncio.sleep(0)
                if group := self._group():
                    await self._send_group(group)
        finally:
            self._sending = None

    def _group(self) -> list[_Waiting]:
        """Take as many waiting batches as fit into one append."""
        group, count, size = list[_Waiting](), 0, 0
        while self._waiting:
            entries, appended = self._waiting[0]
            count += len(entries)
            size += sum(map(len, entries))
            if group and (count > MAX_BATCH_ENTRIES or size > MAX_BATCH_BYTES):
                break
            self._waiting.popleft()
            if appended.done():  # its caller was cancelled
                count -= len(entries)
            else:
                group.append(_Waiting(entries, appended))
        return group

    async def _send_group(self, group: Sequence[_Waiting]) -> None:
        try:
            first, at_us = await self._send([entry for waiting in group for entry in waiting.entries])
        except asyncio.CancelledError:
            _fail(group, LogError("log is closed: the outcome of its last append is unknown"))
            raise
        except Exception as error:  # noqa: BLE001 - it is the callers'
            _fail(group, error)
            return
        for entries, appended in group:
            if not appended.done():
                appended.set_result(Appended(first, at_us))
            first += len(entries)


def _fail(group: Sequence[_Waiting], error: Exception) -> None:
    for waiting in group:
        if not waiting.appended.done():
            waiting.appended.set_exception(error)

"""What the logs that outlive their process share: batches that wait share an append, and followers one read."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial

from purgatory_async.cluster.append_queue import AppendQueue
from purgatory_async.cluster.connection import OpenOnce, SharedTrip
from purgatory_async.cluster.log import Appended, Entry, check_batch, check_follow
from purgatory_async.cluster.tail import Tail

__all__ = ["EngineLog"]


class EngineLog(ABC):
    """The calls of a `Log` that do not depend on its engine.

    Args:
        poll_s: Returns the seconds between reads of an idle follower.
        grace_s: Returns the seconds for which what is missing before a batch may still be told by others.
    """

    def __init__(self, poll_s: Callable[[], float], grace_s: Callable[[], float] = lambda: 0.0) -> None:
        self._open = OpenOnce()
        self._tail = Tail(self._open, poll_s, grace_s)
        self._queue = AppendQueue(self._append)
        self._trip = SharedTrip(self._end)
        self._epoch = self._follows = ""  # the present epoch, and that of the last follower
        self._followed = False

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """Append a batch; see `Log.append`. Batches that wait at the same time share a commit, or a round trip."""
        self._open.require("append")
        check_batch(entries)
        return await self._queue.append(entries)

    async def follow(self, after: int) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries after a position; see `Log.follow`."""
        self._open.require("follow")
        check_follow(after)
        epoch = self._follows = self._epoch
        self._followed = True
        async with aclosing(self._tail.follow(after, epoch, partial(self._read, epoch))) as reads:
            async for entries in reads:
                yield entries

    def end_now(self) -> int | None:
        """Return nothing: the engine has to be asked; see `Log.end_now`."""
        self._open.require("ask for its end")
        return None

    async def end(self) -> int:
        """Return the newest position; see `Log.end`."""
        self._open.require("ask for its end")
        return await self._trip()

    @abstractmethod
    async def _append(self, entries: Sequence[bytes]) -> Appended:
        """Append a batch to the engine."""

    @abstractmethod
    async def _read(self, epoch: str, after: int) -> Sequence[Entry]:
        """Read what comes after a position, or raise `LogGap`."""

    @abstractmethod
    async def _end(self) -> int:
        """Ask the engine for the newest position."""

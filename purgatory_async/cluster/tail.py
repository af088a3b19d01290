"""The end of a log as one of its connections knows it: what it appended last, and hints that others have appended.

A follower that has read everything before that batch takes it from here. It reads from the engine only after a hint.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

from purgatory_async.cluster.connection import Backoff, OpenOnce
from purgatory_async.cluster.log import Appended, Entry, LogUnavailable

__all__ = ["Tail"]


class _Batch(NamedTuple):
    """Entries, where they are in the log, and in which epoch they got there."""

    epoch: str
    first: int
    at_us: int
    entries: Sequence[bytes]


_NONE = _Batch("", 1, 0, ())


class Tail:
    """What the followers of a log wait for.

    Args:
        open_: Whether the log is open.
        poll_s: Returns after how many quiet seconds a follower reads without a hint.
    """

    __slots__ = ("_batch", "_changed", "_hints", "_open", "_poll_s")

    def __init__(self, open_: OpenOnce, poll_s: Callable[[], float]) -> None:
        self._open = open_
        self._poll_s = poll_s
        self._batch = _NONE
        self._hints = 0
        self._changed = asyncio.Event()

    def append(self, epoch: str, appended: Appended, entries: Sequence[bytes]) -> None:
        """Keep a batch that is in the log, instead of the one before, and wake the followers."""
        self._batch = _Batch(epoch, *appended, entries)
        self._wake()

    def hint(self) -> None:
        """Make the followers read, or end if the log is closed."""
        self._hints += 1
        self._wake()

    async def follow(
        self, after: int, epoch: str, read: Callable[[int], Awaitable[Sequence[Entry]]]
    ) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the entries after a position; see `Log.follow`.

        Args:
            after: The position.
            epoch: The epoch of the log; a batch of another epoch is not handed out.
            read: Reads the next entries after a position from the engine.
        """
        backoff, answered = Backoff(), -1
        while self._open:
            entries: Sequence[Entry] = self._own(after, epoch)
            hints = self._hints
            if not entries and answered == hints:
                await self._wait(self._poll_s())
                continue
            if not entries:
                try:
                    entries = await read(after)
                except LogUnavailable:
                    await self._wait(backoff.next_delay())
                    continue
                backoff.reset()
            if entries:
                after = entries[-1].position
                yield entries
            else:
                answered = hints

    def _own(self, after: int, epoch: str) -> list[Entry]:
        """Return the kept batch's entries after a position; none if others' entries come first and must be read."""
        kept_in, first, at_us, entries = self._batch
        start = after + 1 - first
        if start >= len(entries):
            return []
        if start < 0 or kept_in != epoch:
            self._batch = _NONE
            self._hints += 1
            return []
        return [Entry(place, at_us, data) for place, data in enumerate(entries[start:], after + 1)]

    async def _wait(self, seconds: float) -> None:
        poll = asyncio.get_running_loop().call_later(seconds, self.hint)
        try:
            await self._changed.wait()
        finally:
            poll.cancel()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

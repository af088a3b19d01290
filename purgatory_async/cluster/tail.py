"""The end of a log as one of its connections knows it: the newest batches that it appended, or that others told it.

A follower that has read everything before them takes them from here. It reads from the engine only after a hint, or if
entries before them are missing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from purgatory_async.cluster.connection import Backoff, OpenOnce
from purgatory_async.cluster.log import Appended, Entry, LogUnavailable, one_read

__all__ = ["Tail"]

KEPT_BYTES: Final = (
    262_144  # of the newest batches, for followers that are busy; the newest one is always kept
)


class _Batch(NamedTuple):
    """Entries, where they are in the log, and in which epoch they got there."""

    epoch: str
    first: int
    at_us: int
    entries: Sequence[bytes]

    @property
    def end(self) -> int:
        """The position of its last entry."""
        return self.first + len(self.entries) - 1

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(map(len, self.entries))


class Tail:
    """What the followers of a log wait for.

    Args:
        open_: Whether the log is open.
        poll_s: Returns after how many quiet seconds a follower reads without a hint.
        grace_s: Returns for how long entries that are missing before a batch may still come by themselves. With 0 they
            are read at once.
    """

    __slots__ = (
        "_apart",
        "_changed",
        "_end",
        "_epoch",
        "_giving_up",
        "_grace_s",
        "_hints",
        "_kept",
        "_open",
        "_poll_s",
        "_size",
    )

    def __init__(
        self, open_: OpenOnce, poll_s: Callable[[], float], grace_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._open = open_
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._kept: deque[_Batch] = deque()  # without a hole between them
        self._size = 0
        self._epoch, self._end = "", 0  # up to where the log is known here
        self._apart: dict[int, _Batch] = {}  # by first position: batches behind a hole
        self._giving_up: asyncio.TimerHandle | None = None
        self._hints = 0
        self._changed = asyncio.Event()

    def append(self, epoch: str, appended: Appended, entries: Sequence[bytes]) -> None:
        """Keep a batch that is in the log, and wake the followers. One that is known already changes nothing. O(1)."""
        batch = _Batch(epoch, *appended, entries)
        if epoch == self._epoch and batch.first != self._end + 1:
            if batch.end <= self._end:
                return
            if batch.first > self._end and (grace_s := self._grace_s()):
                self._wait_for_what_is_before(batch, grace_s)
                return
        if epoch != self._epoch or batch.first != self._end + 1:
            self._start_after(epoch, batch.first - 1)
        self._add(batch)
        self._add_apart()
        self._wake()

    @property
    def end(self) -> int:
        """The position up to which the log is known here, in the epoch of the newest batch or read."""
        return self._end

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
        backoff, answered, has_read = Backoff(), (-1, "", 0), False
        while self._open:
            # At first it reads: what the engine no longer has, or has in another epoch, is not handed out here.
            entries: Sequence[Entry] = self._known(after, epoch) if has_read else ()
            present = self._present
            if entries:
                if answered[0] == present[0]:
                    answered = present
            elif answered == present:
                await self._wait(self._poll_s())
                continue
            else:
                try:
                    entries = await read(after)
                except LogUnavailable:
                    await self._wait(backoff.next_delay())
                    continue
                backoff.reset()
                has_read = True
                unchanged = present == self._present
                if entries:
                    self._reach(epoch, entries[-1].position)
                    # What was hinted at is read until nothing comes; what was told is read up to there.
                    told = present[1] == epoch and present[2] <= entries[-1].position
                    unchanged = unchanged and told and answered[0] == present[0]
                elif unchanged:
                    self._start_after(epoch, after)  # whatever was told, nothing is there
                if unchanged:
                    answered = self._present
            if entries:
                after = entries[-1].position
                yield entries

    @property
    def _present(self) -> tuple[int, str, int]:
        """What followers know of: hints, and up to where batches were told."""
        return self._hints, self._epoch, self._end

    def _known(self, after: int, epoch: str) -> list[Entry]:
        """Return what is kept of the entries after a position; none if entries before it must be read."""
        if epoch != self._epoch or not self._kept or not self._kept[0].first - 1 <= after < self._end:
            return []
        batches = list[_Batch]()
        for batch in reversed(self._kept):
            batches.append(batch)
            if batch.first <= after + 1:
                break
        return one_read(entry for batch in reversed(batches) for entry in _entries(batch, after))

    def _reach(self, epoch: str, position: int) -> None:
        """Note that a follower has come to a position: a batch right behind it has no hole before it."""
        if epoch != self._epoch or position > self._end:
            self._start_after(epoch, position)

    def _start_after(self, epoch: str, position: int) -> None:
        self._kept.clear()
        self._size = 0
        self._epoch, self._end = epoch, position
        self._add_apart()

    def _add(self, batch: _Batch) -> None:
        self._kept.append(batch)
        self._size += batch.size
        self._end = batch.end
        while self._size > KEPT_BYTES and len(self._kept) > 1:
            self._size -= self._kept.popleft().size

    def _wait_for_what_is_before(self, batch: _Batch, grace_s: float) -> None:
        self._apart[batch.first] = batch
        if self._giving_up is None:
            self._giving_up = asyncio.get_running_loop().call_later(grace_s, self._give_up)

    def _add_apart(self) -> None:
        """Add what was behind a hole that is filled."""
        if not self._apart:
            return
        while (batch := self._apart.pop(self._end + 1, None)) is not None and batch.epoch == self._epoch:
            self._add(batch)
        self._apart = {
            first: each
            for first, each in self._apart.items()
            if first > self._end and each.epoch == self._epoch
        }
        if not self._apart and self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        """Have what did not come read from the engine."""
        self._giving_up = None
        self._apart.clear()
        self.hint()

    async def _wait(self, seconds: float) -> None:
        poll = asyncio.get_running_loop().call_later(seconds, self.hint)
        try:
            await self._changed.wait()
        finally:
            poll.cancel()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _entries(batch: _Batch, after: int) -> Iterator[Entry]:
    """Yield the entries of a batch after a position."""
    skipped = max(after + 1 - batch.first, 0)
    for place, data in enumerate(batch.entries[skipped:], batch.first + skipped):
        yield Entry(place, batch.at_us, data)

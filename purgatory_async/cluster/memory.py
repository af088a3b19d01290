"""A log in this process's memory: for one process, and for tests."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from purgatory_async.clock import Clock, MonotonicClock
from purgatory_async.cluster.connection import OpenOnce
from purgatory_async.cluster.log import (
    Appended,
    Checkpoint,
    Entry,
    Head,
    LogGap,
    check_batch,
    check_epoch,
    check_follow,
    check_save,
    loads,
    new_epoch,
    one_read,
)

__all__ = ["MemoryLog", "MemoryStore"]


class MemoryStore:
    """The entries and the checkpoint of the memory logs that share it, as workers share a database.

    Args:
        clock: The source of log time; if not given, the monotonic clock. Its offset to the wall clock is fixed here,
            so log time follows no step of the wall clock.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = MonotonicClock() if clock is None else clock
        self.origin_us = time.time_ns() // 1000 - self.clock.time_ns() // 1000
        self.epoch = new_epoch()
        self.entries: list[Entry] = []
        self.trimmed = 0  # the position before the oldest entry
        self.at_us = 0
        self.checkpoint = 0
        self.before = 0  # the checkpoint before
        self.parts: dict[int, list[bytes]] = {}
        self.changed = asyncio.Event()

    @property
    def position(self) -> int:
        """The newest entry's position."""
        return self.trimmed + len(self.entries)

    def head(self) -> Head:
        """The present state."""
        return Head(self.epoch, self.position, self.at_us, self.trimmed + 1, self.checkpoint)

    def append(self, entries: Sequence[bytes]) -> Appended:
        """Append a valid batch and wake the followers."""
        first = self.position + 1
        self.at_us = max(self.at_us, self.origin_us + self.clock.time_ns() // 1000)
        self.entries += [Entry(first + index, self.at_us, data) for index, data in enumerate(entries)]
        self.wake()
        return Appended(first, self.at_us)

    def read(self, after: int) -> list[Entry]:
        """Return the entries of one read, or raise `LogGap`."""
        if not self.trimmed <= after <= self.position:
            raise LogGap(
                f"after must be from {self.trimmed} to {self.position}, got {after}; the entries between are gone",
                oldest=self.trimmed + 1,
                epoch=self.epoch,
            )
        start = after - self.trimmed
        return one_read(self.entries[index] for index in range(start, len(self.entries)))

    def save(self, position: int, parts: list[bytes], keep: int) -> None:
        """Make this the newest checkpoint and trim, or raise `ValueError`."""
        check_save(position, keep, self.head())
        self.before, self.checkpoint = self.checkpoint, position
        self.parts = {self.before: self.parts.get(self.before, []), position: parts}
        surplus = position - keep - self.trimmed
        if surplus > 0:
            del self.entries[:surplus]
            self.trimmed += surplus

    def wake(self) -> None:
        """Wake the followers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class MemoryLog:
    """A log in memory: as fast as a list, and gone with the process.

    Args:
        store: Where its entries are; if not given, a store of its own.

    >>> import asyncio
    >>> async def main():
    ...     log = MemoryLog()
    ...     await log.open()
    ...     await log.append([b"a", b"b"])
    ...     async for entries in log.follow(0):
    ...         return [(entry.position, entry.data) for entry in entries]
    >>> asyncio.run(main())
    [(1, b'a'), (2, b'b')]
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self._store = MemoryStore() if store is None else store
        self._open = OpenOnce()

    def __repr__(self) -> str:
        return f"<MemoryLog {self._open.state} position={self._store.position}>"

    async def open(self, *, epoch: str = "") -> Head:
        """Return the log's state; see `Log.open`."""
        self._open.open()
        head = self._store.head()
        check_epoch(head, epoch, self)
        return head

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """Append a batch; see `Log.append`. O(entries)."""
        self._open.require("append")
        check_batch(entries)
        return self._store.append(entries)

    async def follow(self, after: int) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries after a position; see `Log.follow`."""
        self._open.require("follow")
        check_follow(after)
        while self._open:
            changed = self._store.changed
            entries = self._store.read(after)
            if entries:
                after = entries[-1].position
                yield entries
            else:
                await changed.wait()

    async def end(self) -> int:
        """Return the newest position; see `Log.end`."""
        self._open.require("ask for its end")
        return self._store.position

    def end_now(self) -> int:
        """Return the newest position; see `Log.end_now`."""
        self._open.require("ask for its end")
        return self._store.position

    async def save(self, position: int, parts: AsyncIterator[bytes], keep: int) -> None:
        """Save a checkpoint and trim; see `Log.save`."""
        self._open.require("save")
        check_save(position, keep, self._store.head())
        self._store.save(position, [part async for part in parts], keep)

    async def load(self, *, below: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint; see `Log.load`."""
        self._open.require("load")
        store = self._store
        position = loads(store.head(), store.before, below)
        return Checkpoint(position, _each(store.parts[position]), store.epoch) if position else None

    async def aclose(self) -> None:
        """Close it; see `Log.aclose`. The entries stay in the store."""
        self._open.close()
        self._store.wake()


async def _each(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part

"""Applies the entries of a log in order, each position once, whether read or just appended.

An entry appended at the position right after the last one applied is applied at once. When it is read back it must be
the same one; otherwise the engine has lost it, and others have appended past it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from purgatory_async.cluster.connection import following
from purgatory_async.cluster.log import Appended, Entry, Head, Log, LogGap

__all__ = ["Replica"]

SLICE: Final = 256  # entries applied before other tasks run


class Replica:
    """A reader of a log.

    Args:
        log: An open log.
        head: Its state; the replica starts at its end.
        apply: Called with each entry, in order. An error from it ends `run`.
        rest: Awaited after each batch that was read, so that what applies entries later is not left behind.
    """

    def __init__(
        self,
        log: Log,
        head: Head,
        apply: Callable[[Entry], object],
        rest: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.position = head.position
        self.epoch = head.epoch
        self._log = log
        self._apply = apply
        self._rest = rest
        self._ahead: deque[bytes] = deque()  # applied when they were appended, not yet read back

    def appended(self, appended: Appended, batch: Sequence[bytes]) -> None:
        """Apply a batch just appended, if everything before it is applied."""
        if appended.first == self.position + 1:
            for data in batch:
                self._ahead.append(data)
                self._take(Entry(self.position + 1, appended.at_us, data))

    def restart(self, position: int, epoch: str) -> None:
        """Continue after another position, as after a gap."""
        self.position, self.epoch = position, epoch
        self._ahead.clear()

    async def run(self) -> None:
        """Follow the log until it is closed.

        Raises:
            LogGap: Entries are gone; `restart`, then run again.
            LogDamaged: An entry is not what was appended.
        """
        async with following(self._log, self.position - len(self._ahead)) as reads:
            async for entries in reads:
                for count, entry in enumerate(entries, start=1):
                    self._read(entry)
                    if count % SLICE == 0:
                        await asyncio.sleep(0)
                if self._rest is not None:
                    await self._rest()

    def _read(self, entry: Entry) -> None:
        if entry.position > self.position:
            self._take(entry)
        elif self._ahead.popleft() != entry.data:
            raise LogGap(
                f"entry {entry.position} must be the one that was appended; the engine has lost that one",
                oldest=entry.position,
                epoch=self.epoch,
            )

    def _take(self, entry: Entry) -> None:
        self.position = entry.position  # before: an entry that cannot be applied is not tried again
        self._apply(entry)

"""How long a log without a service keeps its signals: an hour of log time, and a million entries at most.

A log is trimmed by saving a checkpoint. A cluster has no state to save, so its checkpoint is a mark; any other one is
a service's, which then trims.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from purgatory_async.cluster.connection import following
from purgatory_async.cluster.log import Entry, Head, Log, LogGap, LogUnavailable

__all__ = ["MARK", "Retention"]

MARK: Final = b'{"cluster":1}'
"""The only part of a cluster's checkpoint."""
KEPT_US: Final = 3_600_000_000
KEPT_ENTRIES: Final = 1_000_000
TRIM_S: Final = 60.0

_OURS: Final = ("signal", "alive")
_SAMPLE_US: Final = 60_000_000


class Retention:
    """Trim a log.

    Args:
        log: An open log.
        head: Its state when it was opened.
        kind_of: Reads the kind of an entry.
    """

    def __init__(self, log: Log, head: Head, *, kind_of: Callable[[Entry], str]) -> None:
        self._foreign = False  # whether a service writes to the log, so that nothing is trimmed here
        self._unread = head.oldest - 1, head.position  # what was appended before this worker started
        self._kind_of = kind_of
        self._log = log
        self._samples = deque([(head.position, head.at_us)])  # positions about a minute of log time apart
        self._newest, self._at_us = head.position, head.at_us
        self._trimmed = head.checkpoint

    def note(self, entry: Entry, kind: str) -> None:
        """Note an entry, in the order of the log. O(1)."""
        self._foreign |= kind not in _OURS
        self._newest, self._at_us = entry.position, entry.at_us
        if entry.at_us - self._samples[-1][1] >= _SAMPLE_US:
            self._samples.append((entry.position, entry.at_us))

    def restart(self, oldest: int, position: int) -> None:
        """Continue after a gap, in which positions may have gone back."""
        self._unread = oldest - 1, position
        self._samples = deque([(position, self._at_us)])
        self._newest, self._trimmed = position, 0

    def surplus(self) -> int:
        """Return the last position that need not be kept; 0 if there is none."""
        now_us = self._samples[-1][1]
        while len(self._samples) > 1 and self._samples[1][1] <= now_us - KEPT_US:
            self._samples.popleft()
        position, at_us = self._samples[0]
        by_age = position if at_us <= now_us - KEPT_US else 0
        return max(by_age, self._newest - KEPT_ENTRIES)

    async def run(self) -> None:
        """Trim about once a minute, without end; again later after a gap or an outage. Raises as `trim`."""
        while True:
            await asyncio.sleep(TRIM_S * random.uniform(0.5, 1.5))  # noqa: S311 - so that workers take turns
            with contextlib.suppress(LogGap, LogUnavailable):
                await self.trim()

    async def trim(self) -> None:
        """Trim what need not be kept, unless a service does.

        Raises:
            LogError: As `Log.follow`, `Log.load` and `Log.save`; try again later after a `LogGap` or `LogUnavailable`.
        """
        surplus = self.surplus()
        if self._foreign or surplus <= self._trimmed or await self._has_foreign():
            return
        checkpoint = await self._log.load()
        if checkpoint is not None:
            try:
                self._foreign = [part async for part in checkpoint.parts] != [MARK]
            except LogUnavailable:
                return  # another worker saved meanwhile
            if self._foreign or checkpoint.position >= surplus:
                return
        try:
            await self._log.save(surplus, _mark(), keep=0)
        except ValueError:
            return  # another worker was faster
        self._trimmed = surplus

    async def _has_foreign(self) -> bool:
        """Look once at the entries from before the start: a service that is stopped needs its own."""
        after, last = self._unread
        while after < last and not self._foreign:
            try:
                async with following(self._log, after) as reads:
                    entries = await anext(reads)
            except LogGap as gap:  # another worker trimmed meanwhile
                if gap.oldest <= after + 1:
                    raise
                after = gap.oldest - 1
            else:
                after = entries[-1].position
                self._foreign = any(self._kind_of(entry) not in _OURS for entry in entries)
        self._unread = after, last
        return self._foreign


async def _mark() -> AsyncIterator[bytes]:
    yield MARK

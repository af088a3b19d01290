"""How long a log without a service keeps its signals: an hour of log time, and a million entries at most.

A log is trimmed by saving a checkpoint. A cluster has no state to save, so its checkpoint is a mark; any other one is
a service's, which then trims.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from purgatory_async.cluster.log import Entry, Head, Log, LogUnavailable

__all__ = ["MARK", "Retention"]

MARK: Final = b'{"cluster":1}'
"""The only part of a cluster's checkpoint."""
KEPT_US: Final = 3_600_000_000
KEPT_ENTRIES: Final = 1_000_000

_SAMPLE_US: Final = 60_000_000


class Retention:
    """Trim a log.

    Args:
        log: An open log.
        head: Its state when it was opened.
    """

    def __init__(self, log: Log, head: Head) -> None:
        self.foreign = False
        """Whether a service writes to the log, so that nothing is trimmed here."""
        self._log = log
        self._samples = deque([(head.position, head.at_us)])  # positions about a minute of log time apart
        self._newest = head.position
        self._trimmed = head.checkpoint

    def note(self, entry: Entry) -> None:
        """Note an entry, in the order of the log. O(1)."""
        self._newest = entry.position
        if entry.at_us - self._samples[-1][1] >= _SAMPLE_US:
            self._samples.append((entry.position, entry.at_us))

    def surplus(self) -> int:
        """Return the last position that need not be kept; 0 if there is none."""
        now_us = self._samples[-1][1]
        while len(self._samples) > 1 and self._samples[1][1] <= now_us - KEPT_US:
            self._samples.popleft()
        position, at_us = self._samples[0]
        by_age = position if at_us <= now_us - KEPT_US else 0
        return max(by_age, self._newest - KEPT_ENTRIES)

    async def trim(self) -> None:
        """Trim what need not be kept, unless a service does.

        Raises:
            LogError: As `Log.load` and `Log.save`.
        """
        surplus = self.surplus()
        if self.foreign or surplus <= self._trimmed:
            return
        checkpoint = await self._log.load()
        if checkpoint is not None:
            try:
                self.foreign = [part async for part in checkpoint.parts] != [MARK]
            except LogUnavailable:
                return  # another worker saved meanwhile
            if self.foreign or checkpoint.position >= surplus:
                return
        try:
            await self._log.save(surplus, _mark(), keep=0)
        except ValueError:
            return  # another worker was faster
        self._trimmed = surplus


async def _mark() -> AsyncIterator[bytes]:
    yield MARK

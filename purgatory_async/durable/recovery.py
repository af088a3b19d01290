"""Follow a log, and begin again from its newest checkpoint where it cannot be followed."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from purgatory_async.cluster import Log, LogError, LogGap
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.replica import Replica
from purgatory_async.durable.heartbeat import Diverged
from purgatory_async.durable.loading import check_reach

_LOGGER: Final = logging.getLogger(__name__)


class Recovery:
    """What a worker does about a gap in its log, and about a state that differs from another worker's.

    Args:
        log: The log.
        replica: Reads it.
        load: Loads the newest checkpoint, given an epoch and seconds to wait first; returns its position.

    Attributes:
        gaps, diverged: How many loads were made because entries were gone, or another worker's digest differed.
    """

    def __init__(self, log: Log, replica: Replica, load: Callable[[str, float], Awaitable[int]]) -> None:
        self.gaps = self.diverged = 0
        self._log: Final = log
        self._replica: Final = replica
        self._load: Final = load

    def __repr__(self) -> str:
        return f"<Recovery of {self._log!r} gaps={self.gaps} diverged={self.diverged}>"

    async def run(self) -> None:
        """Follow the log until cancelled.

        Raises:
            LogDamaged, FoldError: The log cannot be applied any further.
            LogError: It was closed, or has failed for good.
        """
        backoff, replica = Backoff(), self._replica
        while True:
            begun = replica.position
            try:
                await replica.run()
            except LogGap as gap:
                self.gaps += 1
                epoch, oldest = gap.epoch, gap.oldest
                _LOGGER.warning("the log has a gap: loading the state again: %s", gap)
            except Diverged:
                self.diverged += 1
                epoch, oldest = replica.epoch, 0
            else:
                raise LogError(f"{self._log!r} was closed: cannot follow it")
            if replica.position > begun:
                backoff.reset()
            position = await self._load(epoch, backoff.next_delay())
            check_reach(position, oldest)
            _LOGGER.warning(
                "the state is loaded again, from position %d of epoch %s", position, replica.epoch
            )

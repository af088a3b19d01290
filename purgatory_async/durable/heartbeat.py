"""The `alive` entries: they keep a worker's takers in line, and compare the running digests of all workers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, Final

from purgatory_async import PurgatoryFull, Timer
from purgatory_async.durable.fold.entries import Alive, Entry
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.errors import Interruption

BEAT_S: Final = 1.0
"""A worker with takers appends something at least once in twice this time."""
DIGEST_S: Final = 10.0
"""How often a worker appends its running digest."""

_LOGGER: Final = logging.getLogger(__name__)


class Diverged(Interruption):
    """Another worker's running digest is not the one here."""


class Heartbeat:
    """Appends the entries that show that this worker is alive.

    Args:
        timer: For the time between two beats.
        post: Proposes an entry.

    Attributes:
        wrote_at: When this worker last appended anything, in seconds of the timer.
    """

    def __init__(self, timer: Timer, post: Callable[[Entry], "asyncio.Future[Any]"]) -> None:
        self.wrote_at = -inf
        self._timer: Final = timer
        self._post: Final = post
        self._sent: asyncio.Future[Any] | None = None
        self._sent_at = -inf
        self._compare_after = 0  # digests in entries up to here may be of states that were given up

    async def run(self, state: Callable[[], tuple[Fold, bool] | None]) -> None:
        """Beat until cancelled.

        Args:
            state: Returns the fold, and whether to beat often: because this worker has takers in line, or must learn
                when the engine takes entries again; None if there is none now.
        """
        while True:
            present, now = state(), self._timer.time()
            if present is not None and (self._sent is None or self._sent.done()):
                fold, often = present
                quiet_s = now - max(self.wrote_at, self._sent_at)
                if now - self._sent_at >= DIGEST_S or (often and quiet_s >= BEAT_S / 2):
                    with suppress(PurgatoryFull):  # what waits to be appended shows the same
                        self._sent = self._post(Alive(position=fold.position, digest=fold.running.hex()))
                        self._sent_at = now
            await self._timer.sleep(BEAT_S)

    def restart(self, end: int) -> None:
        """Go on with a state that was loaded; entries up to ``end`` may have digests of the one given up."""
        self._compare_after = end
        if self._sent is not None:
            self._sent.cancel()

    def compare(self, position: int, entry: Entry, fold: Fold) -> None:
        """Raise `Diverged` if the entry just applied shows that another worker's state differs.

        Which of the two is right is not known, so both load their state again.
        """
        at, fold.diverged_at = fold.diverged_at, None
        if at is None or not isinstance(entry, Alive) or position <= self._compare_after:
            return
        ours = fold.running_at(at)
        _LOGGER.error(
            "the state at position %d has digest %s here and %s at worker %s: loading it again",
            *(at, ours and ours.hex(), entry.digest, entry.writer),
        )
        raise Diverged

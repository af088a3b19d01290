"""What a worker knows of its engine: whether it answers and takes entries, and how far its log reaches."""

from collections.abc import Callable
from typing import Final

from purgatory_async.cluster.log import LogUnavailable
from purgatory_async.cluster.outage import BROKEN, Outage

__all__ = ["Contact"]

SILENT_S: Final = 5.0  # how long an engine may be silent and still count as connected


class Contact:
    """When the engine last answered, and whether this worker has applied all that it then knew of.

    A read-only engine, or one whose disk is full, still answers reads. So failed appends are counted separately.

    Args:
        position: The newest position, just heard.
        time: Returns the present in seconds.
        outage: Logs failures; None makes one.

    Attributes:
        known: The newest position known; after a gap it may go back.
        heard_at: When the engine last answered.
        reconnects: How many times it answered again after a call had failed.
        outage: Why the engine does not serve, while it does not.

    >>> now = 10.0
    >>> contact = Contact(5, lambda: now)
    >>> contact.hear(7, applied=5)
    >>> now = 12.0
    >>> contact.connected, contact.lag(applied=5), contact.lag(applied=7)
    (True, 2.0, 0.0)
    """

    __slots__ = (
        "_level_at",
        "_lost",
        "_refused_at",
        "_time",
        "_unwritable",
        "heard_at",
        "known",
        "outage",
        "reconnects",
    )

    def __init__(self, position: int, time: Callable[[], float], outage: Outage | None = None) -> None:
        self.known = position
        self.heard_at = self._level_at = time()
        self.reconnects = 0
        self.outage: Final = Outage(time) if outage is None else outage
        self._refused_at: float | None = None
        self._unwritable = False
        self._lost = False
        self._time = time

    def hear(self, position: int, *, applied: int) -> None:
        """Note that the engine has answered, and that its log reaches a position."""
        self.heard_at = self._time()
        self.known = max(self.known, position)
        if applied >= self.known:
            self._level_at = self.heard_at
        if self._lost:
            self._lost = False
            self.reconnects += 1
        if not self.refusing:
            self.outage.end()

    def lose(self, error: LogUnavailable) -> None:
        """Note that a call on the engine has failed."""
        self._lost = True
        self.outage.fail(error)

    def refuse(self, error: LogUnavailable) -> None:
        """Note that an append has failed. If the engine refused it, `connected` ends at once."""
        self.lose(error)
        self._unwritable = self._unwritable or error.cause not in BROKEN
        if self._refused_at is None:
            self._refused_at = self._time()

    def give_up(self, error: LogUnavailable) -> None:
        """Note that a change was not written in time; `connected` ends at once."""
        self._unwritable = True
        if self.outage.cause is None:
            self.outage.fail(error, brief_s=0.0)

    def accept(self) -> None:
        """Note that an append has succeeded."""
        self._refused_at, self._unwritable = None, False

    @property
    def refusing(self) -> bool:
        """Whether appends fail or wait too long, since the last one that succeeded."""
        return self._unwritable or self._refused_at is not None

    @property
    def connected(self) -> bool:
        """Whether the engine takes entries, as far as known, and was heard within the last 5 s."""
        since = self.heard_at if self._refused_at is None else min(self.heard_at, self._refused_at)
        return not self._unwritable and self._time() - since <= SILENT_S

    def lag(self, *, applied: int) -> float:
        """Return the seconds since all that was known was applied; 0.0 if it is, and the engine is connected."""
        if self.connected and applied >= self.known:
            return 0.0
        return self._time() - self._level_at

"""What a worker has heard of its engine: whether it answers and takes entries, and how far its log reaches."""

from collections.abc import Callable
from typing import Final

__all__ = ["Contact"]

SILENT_S: Final = 5.0  # how long an engine may be silent and still count as connected


class Contact:
    """When the engine last answered, and whether this worker has applied all that it then knew of.

    A read-only engine, or one whose disk is full, still answers reads. So appends that fail count apart.

    Args:
        position: The newest position, just heard.
        time: Returns the present in seconds.

    Attributes:
        known: The newest position heard of; after a gap it may go back.
        heard_at: When the engine last answered.
        reconnects: How many times it answered again after a call had failed.
        refused_at: When the first append failed since the last one that succeeded; None if none has.

    >>> now = 10.0
    >>> contact = Contact(5, lambda: now)
    >>> contact.hear(7, applied=5)
    >>> now = 12.0
    >>> contact.connected, contact.lag(applied=5), contact.lag(applied=7)
    (True, 2.0, 0.0)
    """

    __slots__ = ("_level_at", "_lost", "_time", "heard_at", "known", "reconnects", "refused_at")

    def __init__(self, position: int, time: Callable[[], float]) -> None:
        self.known = position
        self.heard_at = self._level_at = time()
        self.reconnects = 0
        self.refused_at: float | None = None
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

    def lose(self) -> None:
        """Note that a call on the engine has failed."""
        self._lost = True

    def refuse(self) -> None:
        """Note that an append has failed; set `refused_at` to None once one succeeds."""
        self.lose()
        if self.refused_at is None:
            self.refused_at = self._time()

    @property
    def connected(self) -> bool:
        """Whether the engine was heard within the last 5 s, and did not refuse all appends for as long."""
        since = self.heard_at if self.refused_at is None else min(self.heard_at, self.refused_at)
        return self._time() - since <= SILENT_S

    def lag(self, *, applied: int) -> float:
        """Return the seconds since all that was known was applied; 0.0 if it is, and the engine is connected."""
        if self.connected and applied >= self.known:
            return 0.0
        return self._time() - self._level_at

"""What keeps an engine from serving, and what the log of the process says about it."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from purgatory_async.cluster.causes import CAUSES
from purgatory_async.cluster.log import LogUnavailable

__all__ = ["BROKEN", "Outage"]

BROKEN: Final = frozenset({"starting", "timeout", "unreachable"})
"""Causes for which the engine may not have heard the call; for others it was heard, and refused."""

BRIEF_S: Final = 1.0
"""A connection that is back within this time is not worth a line."""
REPEAT_S: Final = 60.0

_LOGGER: Final = logging.getLogger(__name__)


class Outage:
    """The present outage, if any: it logs a warning when it begins, each minute, and when it is over.

    Args:
        time: Returns the present in seconds.

    Attributes:
        cause: Why the engine does not serve now, a key of `CAUSES`; None while it does.
        failures: How many calls failed, by cause.

    >>> outage = Outage(lambda: 0.0)
    >>> outage.fail(LogUnavailable("no space", cause="full"))
    >>> outage.cause
    'full'
    """

    __slots__ = ("_begun_at", "_time", "_told_at", "_told_cause", "cause", "failures")

    def __init__(self, time: Callable[[], float]) -> None:
        self.cause: str | None = None
        self.failures: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self._time: Final = time
        self._begun_at = 0.0
        self._told_at: float | None = None
        self._told_cause = ""

    def fail(self, error: LogUnavailable, *, brief_s: float = BRIEF_S) -> None:
        """Note that a call has failed. A broken connection is logged once it lasts longer than ``brief_s``. O(1)."""
        now = self._time()
        if self.cause is None:
            self._begun_at, self._told_at = now, None
        self.cause = error.cause
        self.failures[error.cause] += 1
        if self._told_at is None:
            what = "the store does not serve"
            due = error.cause not in BROKEN or now - self._begun_at >= brief_s
        else:
            what = f"the store has not served for {now - self._begun_at:.0f} s"
            # Also when the engine's own reason comes after a call that only took too long.
            due = now - self._told_at >= REPEAT_S or (
                self._told_cause in BROKEN and error.cause not in BROKEN
            )
        if due:
            self._told_at, self._told_cause = now, error.cause
            _LOGGER.warning("%s: %s: %s", what, CAUSES[error.cause], error)

    def end(self) -> None:
        """Note that the engine serves. O(1)."""
        if self.cause is not None and self._told_at is not None:
            _LOGGER.warning("the store serves again after %.1f s", self._time() - self._begun_at)
        self.cause = None

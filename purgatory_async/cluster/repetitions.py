"""Which entries of a log are repetitions.

A writer is one run of one worker. It numbers its entries from 1, the first of which introduces it, and appends a batch
again while the outcome is unknown. So an entry whose number is not above its writer's last one is a repetition. A
writer is forgotten after 10 minutes of log time without an entry; then only an introduction counts.

>>> repetitions = Repetitions(since_us=0)
>>> [repetitions.judge("w", number, introduces=number == 1, at_us=0).value for number in (1, 2, 2, 3)]
['new', 'new', 'repeated', 'new']
"""

from collections import OrderedDict
from enum import Enum
from typing import Final

__all__ = ["FORGOTTEN_AFTER_US", "Repetitions", "Verdict"]

FORGOTTEN_AFTER_US: Final = 600_000_000


class Verdict(Enum):
    """What an entry is: ``NEW`` takes effect; ``REPEATED`` and one of an ``UNKNOWN`` writer do not."""

    NEW = "new"
    REPEATED = "repeated"
    UNKNOWN = "unknown"


class Repetitions:
    """The last number of each writer, the most silent writer first.

    Args:
        since_us: The log time at which a reader starts in the middle of a log, so that it has missed introductions; if
            not given, that of the first entry it judges. For 10 minutes of log time it takes a writer it does not know
            for one that was introduced before.
    """

    __slots__ = ("_last", "_since_us")

    def __init__(self, since_us: int | None = None) -> None:
        self._since_us = since_us
        self._last: OrderedDict[str, tuple[int, int]] = OrderedDict()  # number and log time

    def judge(self, writer: str, number: int, *, introduces: bool, at_us: int) -> Verdict:
        """Note an entry, in the order of the log. O(1), and O(forgotten writers)."""
        if self._since_us is None:
            self._since_us = at_us
        self._forget(at_us - FORGOTTEN_AFTER_US)
        known = self._last.get(writer)
        if known is None:
            introduced = (number == 1 and introduces) or at_us < self._since_us + FORGOTTEN_AFTER_US
            if not introduced:
                return Verdict.UNKNOWN
            self._last[writer] = number, at_us
            return Verdict.NEW
        self._last[writer] = max(known[0], number), at_us
        self._last.move_to_end(writer)
        return Verdict.NEW if number > known[0] else Verdict.REPEATED

    def _forget(self, upto_us: int) -> None:
        while self._last:
            writer = next(iter(self._last))
            if self._last[writer][1] > upto_us:
                return
            del self._last[writer]

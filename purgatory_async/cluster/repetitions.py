"""Which entries of a log are repetitions.

A writer is one run of one worker. It numbers its entries from 1, the first of which introduces it, and appends a batch
again while the outcome is unknown. So an entry whose number is not above its writer's last one is a repetition. A
writer is forgotten after 10 minutes of log time without an entry; then only an introduction counts.

>>> repetitions = Repetitions(since_us=0)
>>> [repetitions.judge("w", n, introduces=n == 1, position=n, at_us=0).value for n in (1, 2, 2, 3)]
['new', 'new', 'repeated', 'new']
"""

from collections import OrderedDict
from enum import Enum
from typing import Final

__all__ = ["FORGOTTEN_AFTER_US", "FROM_THE_START", "NEVER_US", "NEW", "Repetitions", "Verdict", "Writer"]

FORGOTTEN_AFTER_US: Final = 600_000_000
FROM_THE_START: Final = -FORGOTTEN_AFTER_US
"""The ``since_us`` of a reader that has missed no introduction."""
NEVER_US: Final = 2**62
"""A log time that never comes."""


class Verdict(Enum):
    """Whether an entry takes effect: ``NEW`` does; ``REPEATED`` or from an ``UNKNOWN`` writer does not."""

    NEW = "new"
    REPEATED = "repeated"
    UNKNOWN = "unknown-writer"


NEW: Final = Verdict.NEW
"""The member, found once: three looks through its class would make a step of the fold 5 % longer."""


class Writer:
    """A writer: its last number, and where and when its last entry came, repetitions included."""

    __slots__ = ("at_us", "number", "position")

    def __init__(self, number: int, position: int, at_us: int) -> None:
        self.number = number
        self.position = position
        self.at_us = at_us


class Repetitions:
    """The writers that appended something lately.

    Args:
        since_us: The log time at which a reader starts in the middle of a log, so that it has missed introductions; if
            not given, the log time of the first entry it judges. For 10 minutes of log time it assumes that an unknown
            writer was introduced before.

    Attributes:
        known: By name, the most silent writer first.
    """

    def __init__(self, since_us: int | None = None) -> None:
        self._since_us = since_us
        self.known: Final[OrderedDict[str, Writer]] = OrderedDict()

    def judge(self, name: str, number: int, *, introduces: bool, position: int, at_us: int) -> Verdict:
        """Note a writer's entry, in the order of the log. O(1)."""
        writer = self.known.get(name)
        if writer is None:
            if self._since_us is None:
                self._since_us = at_us
            introduced = (number == 1 and introduces) or at_us < self._since_us + FORGOTTEN_AFTER_US
            if not introduced:
                return Verdict.UNKNOWN
            self.known[name] = Writer(number, position, at_us)
            return NEW
        writer.position = position
        writer.at_us = at_us
        self.known.move_to_end(name)
        if number <= writer.number:
            return Verdict.REPEATED
        writer.number = number
        return NEW

    def forget(self, now_us: int) -> int:
        """Forget the writers without an entry for 10 minutes; return when the next one will be. O(forgotten)."""
        while self.known:
            name, writer = next(iter(self.known.items()))
            if writer.at_us + FORGOTTEN_AFTER_US > now_us:
                return writer.at_us + FORGOTTEN_AFTER_US
            del self.known[name]
        return NEVER_US

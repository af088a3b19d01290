"""What the leader of a partition knows of one follower, from its fetches."""

from typing import Final

__all__ = ["Follower"]

_NOTHING: Final[tuple[int, int]] = (-1, -1)


class Follower:
    """One follower.

    Args:
        now: In seconds.

    Attributes:
        end: The offset it fetched from: it has everything before.
        start: The first offset it can give.
        caught_up_at: When it last had all that the leader had, in seconds.
        told: The high watermark and the log's start as it was last sent them.
    """

    __slots__ = ("_fetched_at", "_leader_end", "caught_up_at", "end", "start", "told")

    def __init__(self, now: float) -> None:
        self.end = 0
        self.start = 0
        self.caught_up_at = now
        self.told = _NOTHING
        self._fetched_at = now
        self._leader_end = 0

    def fetched(self, offset: int, start: int, leader_end: int, now: float) -> None:
        """Take a fetch from ``offset``.

        Under a steady stream a follower never asks for the leader's present end. If it asks for what was the end at
        its fetch before, it had caught up then.
        """
        self.end, self.start = offset, start
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self._leader_end:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self._fetched_at, self._leader_end = now, leader_end

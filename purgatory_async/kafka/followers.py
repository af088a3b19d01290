"""What the leader of a partition knows of its followers, from their fetches: how far each is, and which are in sync."""

from collections.abc import Iterator, Sequence
from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["Follower", "Followers"]

_NOTHING: Final[tuple[int, int]] = (-1, -1)


class Follower:
    """One follower.

    Args:
        now: In seconds.

    Attributes:
        end: The offset it fetched from: it has everything before.
        start: The first offset it can give.
        caught_up_at: When it last had all that the leader had, in seconds.
        sent: The high watermark and the log's start that it was sent last.
    """

    __slots__ = ("_fetched_at", "_leader_end", "caught_up_at", "end", "sent", "start")

    def __init__(self, now: float) -> None:
        self.end = 0
        self.start = 0
        self.caught_up_at = now
        self.sent = _NOTHING
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


class Followers:
    """The followers of one partition. A follower in sync has all records before the high watermark.

    Args:
        replicas: Their numbers; all are in sync at first.
        now: In seconds.

    Attributes:
        in_sync: The numbers of those in sync.
    """

    __slots__ = ("_followers", "in_sync")

    def __init__(self, replicas: Sequence[int], now: float) -> None:
        self._followers: Final = {replica: Follower(now) for replica in replicas}
        self.in_sync: Final = set(replicas)

    def __iter__(self) -> Iterator[int]:
        return iter(self._followers)

    def __getitem__(self, replica: int) -> Follower:
        """Find a follower; raises `ProtocolError` with not_leader_or_follower if it is none."""
        follower = self._followers.get(replica)
        if follower is None:
            raise ProtocolError(
                ErrorCode.not_leader_or_follower,
                f"replica must be one of {tuple(self._followers)}, got {replica}",
            )
        return follower

    def least_end(self, leader_end: int) -> int:
        """The least end among the leader and those in sync. O(followers)."""
        return min((leader_end, *(self._followers[replica].end for replica in self.in_sync)))

    def least_start(self, leader_start: int) -> int:
        """The least start among the leader and those in sync. O(followers)."""
        return min((leader_start, *(self._followers[replica].start for replica in self.in_sync)))

    def fetched(
        self, replica: int, offset: int, start: int, *, high_watermark: int, leader_end: int, now: float
    ) -> None:
        """Take a follower's fetch; it is in sync from the high watermark on, and not before. O(1).

        Raises:
            ProtocolError: not_leader_or_follower, if it is no follower.
        """
        follower = self[replica]
        follower.fetched(offset, start, leader_end, now)
        if offset < high_watermark:
            self.in_sync.discard(replica)  # it restarted, without its records
        elif replica not in self.in_sync:
            self.in_sync.add(replica)
            follower.caught_up_at = now

    def drop_laggards(self, leader_end: int, now: float, lag: float) -> bool:
        """Take followers out of sync that have not caught up for ``lag`` seconds; whether any left. O(followers)."""
        late = {
            replica
            for replica in self.in_sync
            if self._followers[replica].end < leader_end and now - self._followers[replica].caught_up_at > lag
        }
        self.in_sync.difference_update(late)
        return bool(late)

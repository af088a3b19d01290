"""A partition: its log, its replicas, and the high watermark up to which all replicas in sync have it.

Nothing here waits or knows the time: callers pass ``now``, and check what waits when a call says that something moved.
"""

from collections.abc import Sequence
from typing import Final

from purgatory_async.kafka.batches import Batch, sole_batch
from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.configs.rules import Rules
from purgatory_async.kafka.epochs import NO_EPOCH
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.followers import Followers
from purgatory_async.kafka.segments import Bytes
from purgatory_async.kafka.unified_log import UnifiedLog

__all__ = ["NO_EPOCH", "Partition"]


class Partition:
    """One partition of a topic.

    Args:
        topic: The topic's name.
        index: Its number in the topic.
        replicas: The brokers that have it, the leader first; all are in sync at first.
        budget: Where its memory is counted.
        rules: What its topic's configs say.
        leader_epoch: Grows with each start of the leader; on a follower, the last batch's, -1 without one.
        now: When it is created, in seconds.

    Attributes:
        high_watermark: The least end among the replicas in sync; never goes back.
        deleted: Whether its topic is gone.
        followers: How far they are, and which are in sync.
        log: What it has.
        paused: Whether the high watermark stands still, for tests.
        rules: What its topic's configs say now.
    """

    __slots__ = (
        "deleted",
        "followers",
        "high_watermark",
        "index",
        "leader",
        "leader_epoch",
        "log",
        "paused",
        "rules",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        *,
        replicas: Sequence[int],
        budget: Budget,
        rules: Rules | None = None,
        leader_epoch: int = 0,
        now: float = 0.0,
    ) -> None:
        self.topic: Final = topic
        self.index: Final = index
        self.leader, *followers = replicas
        self.leader_epoch = leader_epoch
        self.rules = Rules() if rules is None else rules
        self.log: Final = UnifiedLog(budget)
        self.high_watermark = 0
        self.deleted = False
        self.paused = False
        self.followers: Final = Followers(followers, now)

    def __repr__(self) -> str:
        log = self.log
        return f"<Partition {self.topic}-{self.index} {log.start}..{self.high_watermark}..{log.end}>"

    @property
    def replicas(self) -> tuple[int, ...]:
        """The brokers that have it, the leader first."""
        return (self.leader, *self.followers)

    @property
    def replicas_in_sync(self) -> tuple[int, ...]:
        """The brokers in sync, the leader first."""
        return (self.leader, *(replica for replica in self.followers if replica in self.followers.in_sync))

    @property
    def low_watermark(self) -> int:
        """The least start among the replicas in sync: everything before is deleted on all of them."""
        return self.followers.least_start(self.log.start)

    def enough_in_sync(self) -> bool:
        """Whether an acks=all append is allowed."""
        return 1 + len(self.followers.in_sync) >= self.rules.min_insync

    def append(self, records: Bytes, *, acks_all: bool, now_ms: int = 0) -> tuple[int, int]:
        """Append a producer's batch as the leader, or find it as one appended before. O(bytes).

        Args:
            records: One batch.
            acks_all: Whether all replicas in sync must have it.
            now_ms: Milliseconds since 1970, for a topic whose records have the broker's time.

        Returns:
            The offset of its first record, and the high watermark at which all replicas in sync have it.

        Raises:
            ProtocolError: The batch is refused, and nothing is appended.
        """
        batch = self.checked(records, acks_all=acks_all)
        stamp_ms = now_ms if self.rules.stamps else None
        offset = self.log.append_once(records, batch, self.leader_epoch, stamp_ms)
        self._advance()
        return offset, offset + batch.last_offset_delta + 1

    def checked(self, records: Bytes, *, acks_all: bool) -> Batch:
        """Check a producer's batch by its header and its checksum, and return the header. O(bytes).

        Raises:
            ProtocolError: As `append`, but for what its producer sent before.
        """
        if self.deleted:
            raise self._gone()
        if acks_all and not self.enough_in_sync():
            raise ProtocolError(
                ErrorCode.not_enough_replicas,
                f"{self.rules.min_insync} replicas must be in sync, got {1 + len(self.followers.in_sync)}",
            )
        return sole_batch(records, self.rules.max_batch_bytes)

    def append_copies(self, records: Bytes) -> None:
        """Append a leader's batches as a follower; see `UnifiedLog.append_copies`. O(bytes)."""
        try:
            self.log.append_copies(records)
        finally:
            self.leader_epoch = self.log.last_epoch

    def lead_again(self, epoch: int) -> None:
        """Lead in a greater epoch; all that was appended as copies counts as replicated.

        No follower is in sync until it has come to the end.
        """
        self.leader_epoch = epoch
        self.followers.in_sync.clear()
        self.high_watermark = self.log.end

    def start_over(self, offset: int) -> None:
        """Drop all records as a follower, and begin at ``offset``: the leader has none of them. O(segments)."""
        self.log.reset(offset)
        self.high_watermark = offset
        self.leader_epoch = NO_EPOCH

    def drop_diverging(self, epoch: int, end: int, leader_start: int) -> None:
        """Drop as a follower what the leader has not; see `UnifiedLog.drop_diverging`. O(records left)."""
        self.log.drop_diverging(epoch, end, leader_start)
        self.high_watermark = max(self.log.start, min(self.high_watermark, self.log.end))
        self.leader_epoch = self.log.last_epoch

    def check_offset(self, offset: int) -> None:
        """Check that one can read from an offset.

        Raises:
            ProtocolError: offset_out_of_range, or unknown_topic_or_partition once deleted.
        """
        if self.deleted:
            raise self._gone()
        if not self.log.start <= offset <= self.log.end:
            raise ProtocolError(
                ErrorCode.offset_out_of_range,
                f"offset must be {self.log.start} to {self.log.end}, got {offset}",
            )

    def readable_to(self, *, follower: bool) -> int:
        """The offset before which records may be read: the high watermark, for a follower the end."""
        return self.log.end if follower else self.high_watermark

    def follow(self, replica: int, offset: int, start: int, now: float) -> bool:
        """Take a follower's end from its fetch. It is in sync from the high watermark on, and not before.

        Args:
            replica: The follower's number.
            offset: It fetches from here.
            start: The first offset it has.
            now: Seconds.

        Returns:
            Whether the high or low watermark has moved.

        Raises:
            ProtocolError: not_leader_or_follower, if it is no replica.
        """
        before = self.high_watermark, self.low_watermark
        self.followers.fetched(
            replica, offset, start, high_watermark=before[0], leader_end=self.log.end, now=now
        )
        self._advance()
        return before != (self.high_watermark, self.low_watermark)

    def drop_laggards(self, now: float, lag: float) -> bool:
        """Take followers out of sync that have not caught up for ``lag`` seconds. O(followers).

        Returns whether any left; the high watermark may have moved then.
        """
        dropped = self.followers.drop_laggards(self.log.end, now, lag)
        self._advance()
        return dropped

    def note_sent(self, replica: int) -> None:
        """Note that a follower is sent the high watermark and the log's start. O(1)."""
        self.followers[replica].sent = self.high_watermark, self.log.start

    def has_news(self, replica: int) -> bool:
        """Whether either has moved since. O(1)."""
        return self.followers[replica].sent != (self.high_watermark, self.log.start)

    def learn(self, high_watermark: int, start: int) -> None:
        """Take the leader's high watermark and start as a follower, as far as it has come. O(segments freed)."""
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.log.end))
        self.log.trim(min(start, self.log.end))

    def delete_before(self, offset: int) -> int:
        """Delete the records before an offset; -1 is the high watermark. Those deleted before may be deleted again.

        Returns:
            The low watermark at which every replica in sync has deleted them.

        Raises:
            ProtocolError: offset_out_of_range, beyond the high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise ProtocolError(
                ErrorCode.offset_out_of_range,
                f"offset must be 0 to {self.high_watermark}, or -1 for the latter, got {offset}",
            )
        self.log.trim(target)
        return target

    def delete(self) -> None:
        """Free its memory; its waiting requests must be checked."""
        self.deleted = True
        self.log.reset(self.log.end)

    def pause(self) -> None:
        """Stop the high watermark, as if a replica in sync had stopped."""
        self.paused = True

    def resume(self) -> None:
        """Let the high watermark move again; requests that wait for it must be checked."""
        self.paused = False
        self._advance()

    def _gone(self) -> ProtocolError:
        return ProtocolError(
            ErrorCode.unknown_topic_or_partition, f"partition {self.index} of {self.topic!r} is deleted"
        )

    def _advance(self) -> None:
        """Move the high watermark to the least end in sync; it never goes back."""
        if self.paused:
            return
        self.high_watermark = max(self.high_watermark, self.followers.least_end(self.log.end))

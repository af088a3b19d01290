"""A partition: its log, its replicas, and the high watermark up to which all replicas in sync have it.

Nothing here waits or knows the time: callers pass ``now``, and check what waits when a call says that something moved.
"""

from collections.abc import Sequence
from typing import Final

from purgatory_async.kafka.batches import NO_TIME, Batch, check_batch, read_batches, stamped
from purgatory_async.kafka.configs.rules import Rules
from purgatory_async.kafka.epochs import NO_EPOCH, Epochs
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.follower import Follower
from purgatory_async.kafka.producers import Producers
from purgatory_async.kafka.segments import Bytes, Log, Room

__all__ = ["NO_EPOCH", "Partition"]

_EVERYTHING: Final = 1 << 62


class Partition:
    """One partition of a topic.

    Args:
        topic: The topic's name.
        index: Its number in the topic.
        replicas: The brokers that have it, the leader first; all are in sync at first.
        room: Where its memory is counted.
        rules: What its topic's configs say.
        leader_epoch: Grows with each start of the leader; on a follower, that of its last batch, -1 without one.
        now: When it is created, in seconds.

    Attributes:
        high_watermark: The least end among the replicas in sync; never goes back.
        deleted: Whether its topic is gone.
        in_sync: The followers in sync.
        paused: Whether the high watermark stands still, for tests.
        rules: What its topic's configs say now.
    """

    __slots__ = (
        *(
            "_epochs",
            "_followers",
            "_producers",
            "deleted",
            "high_watermark",
            "in_sync",
            "index",
            "leader",
            "leader_epoch",
        ),
        *("log", "paused", "rules", "topic"),
    )

    def __init__(
        self,
        topic: str,
        index: int,
        *,
        replicas: Sequence[int],
        room: Room,
        rules: Rules | None = None,
        leader_epoch: int = 0,
        now: float = 0.0,
    ) -> None:
        self.topic: Final = topic
        self.index: Final = index
        self.leader, *followers = replicas
        self.leader_epoch = leader_epoch
        self.rules = Rules() if rules is None else rules
        self.log: Final = Log(room)
        self.high_watermark = 0
        self.deleted = False
        self.paused = False
        self._producers: Final = Producers()
        self._epochs: Final = Epochs()
        self._followers: Final = {replica: Follower(now) for replica in followers}
        self.in_sync: Final = set(self._followers)

    def __repr__(self) -> str:
        return (
            f"<Partition {self.topic}-{self.index} {self.log.start}..{self.high_watermark}..{self.log.end}>"
        )

    @property
    def replicas(self) -> tuple[int, ...]:
        """The brokers that have it, the leader first."""
        return (self.leader, *self._followers)

    @property
    def replicas_in_sync(self) -> tuple[int, ...]:
        """The brokers in sync, the leader first."""
        return (self.leader, *(replica for replica in self._followers if replica in self.in_sync))

    @property
    def low_watermark(self) -> int:
        """The least start among the replicas in sync: everything before is deleted on all of them."""
        return min((self.log.start, *(self._followers[replica].start for replica in self.in_sync)))

    def enough_in_sync(self) -> bool:
        """Whether an acks=all append is allowed."""
        return 1 + len(self.in_sync) >= self.rules.min_insync

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
        offset = self._producers.check(batch)
        if offset is None:
            if self.rules.stamps:
                records, batch = stamped(records, batch, now_ms)
            offset = self.log.append(records, batch, self.leader_epoch)
            self._epochs.appended(self.leader_epoch, offset)
            self._producers.appended(batch, offset)
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
                f"{self.rules.min_insync} replicas must be in sync, got {1 + len(self.in_sync)}",
            )
        batches = list(read_batches(records))
        if len(batches) != 1:
            raise ProtocolError(
                ErrorCode.invalid_record, f"a produce must have one batch for a partition, got {len(batches)}"
            )
        (batch,) = batches
        if batch.size_bytes > self.rules.max_batch_bytes:
            raise ProtocolError(
                ErrorCode.message_too_large,
                f"a batch must be at most {self.rules.max_batch_bytes} bytes, got {batch.size_bytes}",
            )
        check_batch(batch, records)
        return batch

    def append_time_ms(self, offset: int) -> int:
        """The broker's time of the batch at an offset; -1 if its records have their producers'. O(log batches)."""
        for view in self.log.read(offset, offset + 1, 0, at_least_one=True):
            batch = next(read_batches(view))
            return batch.max_timestamp if batch.has_append_time else NO_TIME
        return NO_TIME

    def append_copies(self, records: Bytes) -> None:
        """Append a leader's batches as a follower. O(bytes).

        Raises:
            ProtocolError: corrupt_message if the batches are torn, offset_out_of_range if they do not follow the end,
                kafka_storage_error if there is no room. Those before are appended.
        """
        for batch in read_batches(records):
            if not self.log.size_bytes and batch.base_offset < self.log.end < batch.next_offset:
                self.log.end = batch.base_offset  # the leader deleted a part of this batch only
            if batch.base_offset != self.log.end:
                raise ProtocolError(
                    ErrorCode.offset_out_of_range,
                    f"the next batch must begin at offset {self.log.end}, got {batch.base_offset}",
                )
            offset = self.log.append(
                records[batch.at : batch.at + batch.size_bytes], batch, batch.leader_epoch
            )
            self._epochs.appended(batch.leader_epoch, offset)
            self._producers.appended(batch, offset)
            self.leader_epoch = batch.leader_epoch

    def lead_again(self, epoch: int) -> None:
        """Lead, in a greater epoch, with what was appended as copies: all of it counts as replicated.

        No follower is in sync until it has come to the end.
        """
        self.leader_epoch = epoch
        self.in_sync.clear()
        self.high_watermark = self.log.end

    def start_over(self, offset: int) -> None:
        """Drop all records as a follower, and begin at ``offset``: the leader has none of them. O(segments)."""
        self.log.reset(offset)
        self.high_watermark = offset
        self.leader_epoch = NO_EPOCH
        self._epochs.truncate(0)
        self._producers.clear()

    def drop_diverging(self, epoch: int, end: int, leader_start: int) -> None:
        """Drop as a follower what the leader has not; `diverging` is its answer. O(records left), which are read.

        Args:
            epoch: The greatest epoch that the leader has, up to that of the last batch here.
            end: Where that epoch ends on the leader.
            leader_start: The first offset that the leader has.
        """
        shared = self._epochs.end_of(epoch, self.log.end)
        offset = self.log.start if shared is None else min(end, shared[1])
        if shared is None or not max(self.log.start, leader_start) <= offset:
            self.start_over(leader_start)
            return
        self.log.truncate(offset)
        self.high_watermark = min(self.high_watermark, self.log.end)
        self._epochs.truncate(self.log.end)
        self.leader_epoch = self._epochs.last
        self._producers.clear()
        for view in self.log.read(self.log.start, self.log.end, _EVERYTHING, at_least_one=False):
            for batch in read_batches(view):
                self._producers.appended(batch, batch.base_offset)

    def continues(self, offset: int, epoch: int) -> bool:
        """Whether a follower can go on from ``offset``, where its last batch of ``epoch`` ends. O(log epochs)."""
        if not self.log.start <= offset <= self.log.end:
            return False
        return epoch == NO_EPOCH or (
            (shared := self._epochs.end_of(epoch, self.log.end)) is not None
            and shared[0] == epoch
            and offset <= shared[1]
        )

    def diverging(self, epoch: int) -> tuple[int, int]:
        """Where a follower that cannot go on still has the same: the greatest epoch up to its own, and its end here.

        O(log epochs).
        """
        return self._epochs.end_of(epoch, self.log.end) or (NO_EPOCH, self.log.start)

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
        follower = self._follower(replica)
        before = self.high_watermark, self.low_watermark
        follower.fetched(offset, start, self.log.end, now)
        if offset < self.high_watermark:
            self.in_sync.discard(replica)  # it restarted, without its records
        elif replica not in self.in_sync:
            self.in_sync.add(replica)
            follower.caught_up_at = now
        self._advance()
        return before != (self.high_watermark, self.low_watermark)

    def drop_laggards(self, now: float, lag: float) -> bool:
        """Take followers out of sync that have not caught up for ``lag`` seconds.

        Returns:
            Whether any left; the high watermark may have moved then. O(followers).
        """
        late = {
            replica
            for replica in self.in_sync
            if self._followers[replica].end < self.log.end
            and now - self._followers[replica].caught_up_at > lag
        }
        self.in_sync.difference_update(late)
        self._advance()
        return bool(late)

    def tell(self, replica: int) -> None:
        """Note that a follower is sent the high watermark and the log's start. O(1)."""
        self._follower(replica).told = self.high_watermark, self.log.start

    def has_news(self, replica: int) -> bool:
        """Whether either has moved since. O(1)."""
        return self._follower(replica).told != (self.high_watermark, self.log.start)

    def learn(self, high_watermark: int, start: int) -> None:
        """Take the leader's high watermark and its log's start as a follower, as far as it has come.

        O(segments freed).
        """
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
        """Free its memory; what waits for it must be checked."""
        self.deleted = True
        self.log.reset(self.log.end)

    def pause(self) -> None:
        """Let the high watermark stand still, as if a replica in sync had stopped."""
        self.paused = True

    def resume(self) -> None:
        """Let the high watermark move again; what waits for it must be checked."""
        self.paused = False
        self._advance()

    def _gone(self) -> ProtocolError:
        return ProtocolError(
            ErrorCode.unknown_topic_or_partition, f"partition {self.index} of {self.topic!r} is deleted"
        )

    def _follower(self, replica: int) -> Follower:
        follower = self._followers.get(replica)
        if follower is None:
            raise ProtocolError(
                ErrorCode.not_leader_or_follower, f"replica must be one of {self.replicas[1:]}, got {replica}"
            )
        return follower

    def _advance(self) -> None:
        """Move the high watermark to the least end in sync; it never goes back."""
        if self.paused:
            return
        least = min((self.log.end, *(self._followers[replica].end for replica in self.in_sync)))
        self.high_watermark = max(self.high_watermark, least)

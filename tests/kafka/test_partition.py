"""A partition with followers: what is in sync, how far all have come, and what a follower does."""

import pytest

from purgatory_async.kafka.budget import Budget
from purgatory_async.kafka.configs.rules import Rules
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.partition import NO_EPOCH, Partition
from tests.kafka.made_batches import batch, records_in

EVERYTHING = 1 << 30


def partition(*followers: int, min_insync: int = 1) -> Partition:
    return Partition(
        "t", 0, replicas=(0, *followers), budget=Budget(EVERYTHING), rules=Rules(min_insync=min_insync)
    )


def append(to: Partition, count: int = 1, *, acks_all: bool = True) -> tuple[int, int]:
    return to.append(batch(*[b"v"] * count), acks_all=acks_all)


def test_a_follower_returns_at_the_high_watermark_not_before():
    led = partition(1)
    append(led, 5)
    led.drop_laggards(now=20, lag=10)
    assert led.high_watermark == 5
    led.follow(1, 4, 0, now=21)
    assert led.replicas_in_sync == (0,)
    led.follow(1, 5, 0, now=22)
    assert led.replicas_in_sync == (0, 1)


def test_a_consumer_reads_only_to_the_high_watermark():
    led = partition(1)
    append(led, 5)
    led.follow(1, 2, 0, now=1)
    assert (led.readable_to(follower=False), led.readable_to(follower=True)) == (2, 5)


def test_too_few_in_sync_refuse_only_acks_all():
    led = partition(1, min_insync=2)
    append(led)
    led.drop_laggards(now=20, lag=10)
    with pytest.raises(ProtocolError, match="2 replicas must be in sync, got 1") as caught:
        append(led)
    assert caught.value.code is ErrorCode.not_enough_replicas
    assert append(led, acks_all=False) == (1, 2)


def test_the_low_watermark_is_the_least_start_in_sync():
    led = partition(1, 2)
    append(led, 5)
    led.follow(1, 5, 0, now=1)
    led.follow(2, 5, 0, now=1)
    assert led.delete_before(4) == 4
    led.follow(1, 5, 4, now=2)
    assert led.low_watermark == 0
    led.follow(2, 5, 4, now=2)
    assert led.low_watermark == 4


def test_a_follower_keeps_its_leaders_offsets_and_epochs():
    led, follower = partition(1), partition()
    append(led, 2)
    append(led, 3)
    sent = b"".join(led.log.read(0, led.log.end, EVERYTHING, at_least_one=False))
    follower.append_copies(sent)
    assert b"".join(follower.log.read(0, 5, EVERYTHING, at_least_one=False)) == sent
    assert (follower.log.end, follower.high_watermark) == (5, 0)
    follower.learn(9, 3)
    assert (follower.log.start, follower.high_watermark) == (3, 5)


def test_a_follower_begins_inside_of_a_batch():
    led, follower = partition(1), partition()
    append(led, 5)
    led.follow(1, 5, 0, now=1)
    led.delete_before(3)
    follower.start_over(3)
    follower.append_copies(b"".join(led.log.read(3, 5, EVERYTHING, at_least_one=False)))
    assert (follower.log.start, follower.log.end) == (3, 5)


def test_a_follower_that_restarted_is_not_in_sync():
    led = partition(1)
    append(led, 5)
    led.follow(1, 5, 0, now=1)
    led.follow(1, 0, 0, now=2)
    assert led.replicas_in_sync == (0,)
    assert append(led) == (5, 6)
    assert led.high_watermark == 6


def test_a_leader_that_restarted_continues_no_older_epoch():
    led = Partition("t", 0, replicas=(0, 1), budget=Budget(EVERYTHING), leader_epoch=2)
    append(led, 5)
    assert led.log.continues(5, 2)
    assert led.log.continues(0, NO_EPOCH)
    assert not led.log.continues(5, 1)
    assert not led.log.continues(6, 2)


def test_a_follower_forgets_the_producers_batches_it_drops():
    led, follower = partition(1), partition()
    first, again = (batch(b"x", producer=(9, 0, number)) for number in (0, 1))
    for sent in (first, again):
        led.append(sent, acks_all=False)
    follower.append_copies(b"".join(led.log.read(0, 2, EVERYTHING, at_least_one=False)))
    follower.drop_diverging(led.leader_epoch, 1, 0)
    assert follower.log.end == 1
    assert follower.append(again, acks_all=False) == (1, 2)
    assert follower.log.end == 2, "a batch that was dropped was found at its former offset"
    assert follower.append(first, acks_all=False) == (0, 1)


def copied(led, end: int, replica: Partition) -> Partition:
    """A follower that has what its leader has up to an offset."""
    replica.append_copies(b"".join(led.log.read(replica.log.end, end, EVERYTHING, at_least_one=False)))
    return replica


def in_epoch(epoch: int, copy: Partition) -> Partition:
    """A leader that started again with what a follower has."""
    led = copied(copy, copy.log.end, Partition("t", 0, replicas=(0, 1), budget=Budget(EVERYTHING)))
    led.lead_again(epoch)
    return led


def test_a_follower_drops_only_what_its_new_leader_lacks():
    old = partition(1)
    append(old, 2)
    append(old, 3)
    behind, ahead = copied(old, 2, partition()), copied(old, 5, partition())
    led = in_epoch(7, behind)
    append(led, 1)
    assert led.log.continues(2, 0)
    assert not led.log.continues(ahead.log.end, ahead.leader_epoch)
    ahead.drop_diverging(*led.log.diverging(ahead.leader_epoch), led.log.start)
    assert (ahead.log.end, ahead.leader_epoch) == (2, 0)
    assert led.log.continues(ahead.log.end, ahead.leader_epoch)
    assert copied(led, 3, ahead).leader_epoch == 7


def test_a_follower_starts_over_behind_its_leaders_start():
    led = partition(1)
    append(led, 2)
    follower = copied(led, 2, partition())
    append(led, 2)
    led.follow(1, 4, 0, now=1)
    led.delete_before(4)
    assert not led.log.continues(2, 0)
    follower.drop_diverging(*led.log.diverging(0), led.log.start)
    assert (follower.log.start, follower.log.end) == (4, 4)


def test_a_leader_that_starts_again_counts_no_follower_in_sync():
    led = partition(1)
    append(led, 2)
    again = in_epoch(7, copied(led, 2, partition()))
    assert (again.high_watermark, again.replicas_in_sync) == (2, (0,))
    again.follow(1, 2, 0, now=1)
    assert again.replicas_in_sync == (0, 1)


def test_a_follower_refuses_batches_that_leave_a_gap():
    led, follower = partition(1), partition()
    append(led, 2)
    append(led, 3)
    with pytest.raises(ProtocolError, match="begin at offset 0, got 2"):
        follower.append_copies(b"".join(led.log.read(2, 5, EVERYTHING, at_least_one=False)))
    assert follower.log.end == 0


def test_a_batch_sent_again_is_not_appended_again():
    alone = partition()
    sent = batch(b"a", b"b", producer=(7, 0, 0))
    assert [alone.append(sent, acks_all=True) for _ in range(2)] == [
        (0, 2),
        (0, 2),
    ]
    assert [read.value for read in records_in(alone.log.read(0, 2, EVERYTHING, at_least_one=False)[0])] == [
        b"a",
        b"b",
    ]


def test_a_deleted_partition_gives_its_memory_back():
    budget = Budget(EVERYTHING)
    gone = Partition("t", 0, replicas=(0,), budget=budget)
    append(gone)
    gone.delete()
    assert budget.used_bytes == 0
    with pytest.raises(ProtocolError, match="deleted") as caught:
        gone.check_offset(1)
    assert caught.value.code is ErrorCode.unknown_topic_or_partition

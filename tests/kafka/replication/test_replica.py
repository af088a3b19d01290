"""Followers that fetch from real nodes, on virtual time: what they copy, learn, drop and acknowledge."""

import asyncio

import pytest
import pytest_asyncio

from purgatory_async.kafka.delayed_write import PartitionStatus
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.replication import recovery, replica
from purgatory_async.testing import settle
from tests.kafka.made_batches import batch, records_in
from tests.kafka.protocol import DELETE_RECORDS, FETCH, PRODUCE
from tests.kafka.socketless import fetched, produced

pytestmark = pytest.mark.asyncio


def values_of(cluster, number: int) -> list[bytes]:
    log = cluster.partition(number, "t").log
    return [read.value for read in records_in(b"".join(log.read(0, log.end, 1 << 30, at_least_one=False)))]


def in_sync(cluster, number: int) -> tuple[int, ...]:
    """Who is in sync, as a broker tells its clients."""
    topic = cluster[number].node.topics.find("t")
    return cluster[number].node.cluster.in_sync(topic, topic.partitions[0])


@pytest_asyncio.fixture
async def led(cluster):
    """The brokers, with topic ``t``: broker 0 leads its partition."""
    cluster[0].node.controller.create("t", [(0, 1, 2)])
    await cluster.settle()
    return cluster


async def test_a_produce_is_held_until_both_followers_have_it(led):
    held = led[0].begin(PRODUCE, 9, **produced("t", batch(b"a")))
    await settle()
    await led.fetch(1, 0)
    await led.fetch(1, 0)
    await led.fetch(2, 0)
    assert not held.done()
    await led.fetch(2, 0)
    assert (await held).responses[0].partition_responses[0].error_code is ErrorCode.none
    assert values_of(led, 1) == values_of(led, 2) == [b"a"]


async def test_held_produces_are_not_walked_for_each_new_one(led, monkeypatch):
    looks = []
    look = PartitionStatus.settle
    monkeypatch.setattr(PartitionStatus, "settle", lambda status: looks.append(1) or look(status))
    held = [led[0].begin(PRODUCE, 9, **produced("t", batch())) for _ in range(50)]
    await settle()
    assert led[0].node.produce.pending == 50
    assert len(looks) < 4 * 50
    await led.settle()
    answers = await asyncio.gather(*held)
    assert {answer.responses[0].partition_responses[0].error_code for answer in answers} == {ErrorCode.none}


async def test_a_held_follower_learns_a_moved_high_watermark(led):
    await led[0].produce("t", batch(b"a"), acks=1)
    await led.fetch(1, 0)
    await led.fetch(2, 0)
    await led.fetch(1, 0)
    held = asyncio.ensure_future(led.fetch(1, 0, waits=True))
    await settle()
    assert (held.done(), led.partition(1, "t").high_watermark) == (False, 0)
    await led.fetch(2, 0)
    await settle()
    assert (held.done(), led.partition(1, "t").high_watermark) == (True, 1)


async def test_a_follower_waits_by_topic_too_and_hears_of_its_end(led):
    held = asyncio.ensure_future(led.fetch(1, 0, waits=True))
    await settle()
    node = led[0].node
    assert node.fetch.keys == 4  # two partitions and their topics
    node.controller.delete(node.topics.find("t"))
    await held
    assert "t" not in led[1].node.topics


async def test_deleting_waits_until_followers_in_sync_have_deleted(led):
    await led[0].produce("t", batch(b"a", b"b", b"c"), acks=1)
    await led.settle()
    held = led[0].begin(
        DELETE_RECORDS,
        2,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}],
        timeout=1_000,
    )
    await settle()
    for follower in (1, 2):
        assert not held.done()
        await led.fetch(follower, 0)
        await led.fetch(follower, 0)
    assert (await held).topics[0].partitions[0].low_watermark == 2
    assert led.partition(1, "t").log.start == led.partition(2, "t").log.start == 2


async def test_a_follower_that_lags_leaves_and_all_are_told(led, manual_clock):
    held = led[0].begin(PRODUCE, 9, **produced("t", batch(b"a"), timeout=60_000))
    await settle()
    for _ in range(3):
        await led.fetch(1, 0)
    manual_clock.advance(10.5)
    for _ in range(2):
        await led.fetch(1, 0)
    led[0].node.drop_laggards()
    answer = await held
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    await led.fetch(1, 0)
    assert in_sync(led, 0) == in_sync(led, 1) == (0, 1)


async def test_a_follower_that_restarted_comes_back_in_sync(led):
    await led[0].produce("t", batch(b"a"), acks=1)
    await led.settle()
    led.start(1)
    await led.fetch(1, 0)
    await led.fetch(1, 0)
    assert led.partition(0, "t").replicas_in_sync == (0, 2)
    await led.fetch(2, 0)
    assert in_sync(led, 2) == (0, 2)
    await led.settle()
    assert led.partition(0, "t").replicas_in_sync == in_sync(led, 2) == (0, 1, 2)
    assert values_of(led, 1) == [b"a"]


async def test_followers_drop_what_a_restarted_leader_has_not(cluster):
    cluster[0].node.controller.create("t", [(1, 0, 2)])
    await cluster.settle()
    await cluster[1].produce("t", batch(b"old"), acks=1)
    await cluster.settle()
    cluster.start(1)
    await cluster.fetch(1, 0)
    await cluster[1].produce("t", batch(b"new"), acks=1)
    await cluster.settle()
    assert [values_of(cluster, number) for number in (0, 1, 2)] == [[b"new"]] * 3


async def test_a_follower_with_no_room_rests_and_the_others_go_on(led, manual_clock, caplog):
    follower = led[1].node.topics.budget
    follower.take(follower.max_bytes)
    await led[0].produce("t", batch(b"a"), acks=1)
    await led.settle()
    manual_clock.advance(1)
    await led.settle()
    assert caplog.text.count("must have at most") == 1
    assert (values_of(led, 1), values_of(led, 2)) == ([], [b"a"])
    follower.take(-follower.max_bytes)
    manual_clock.advance(1)
    await led.settle()
    assert values_of(led, 1) == [b"a"]


async def test_a_stranger_may_not_fetch_as_a_follower(cluster):
    cluster[0].node.controller.create("t", [(0, 1)])
    part = await cluster[0].fetch("t", 0, max_wait=0, replica_id=2)
    assert part.error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("version", [4, 5])
async def test_a_follower_that_names_no_start_has_deleted_nothing(led, version):
    """Up to version 4 a fetch has no field for it; from 5 it may be left out."""
    await led[0].produce("t", batch(b"a"), acks=1)
    asked = fetched("t", 1, replica_id=1, max_wait=0)
    answer = await led[0].ask(FETCH, version, **asked)
    assert answer.responses[0].partitions[0].error_code is ErrorCode.none
    assert led.partition(0, "t").low_watermark == -1
    await led.fetch(1, 0)
    assert led.partition(0, "t").low_watermark == 0


async def test_a_debugger_reads_from_a_follower_a_consumer_does_not(led):
    await led[0].produce("t", batch(b"a"), acks=1)
    await led.settle()
    read = await led[1].fetch("t", 0, max_wait=0, replica_id=-2)
    assert [record.value for record in records_in(read.records)] == [b"a"]
    assert (await led[1].fetch("t", 0, max_wait=0)).error_code is ErrorCode.not_leader_or_follower


async def test_of_many_partitions_each_fetch_takes_the_next_ones(cluster, monkeypatch):
    monkeypatch.setattr(replica, "MAX_ASKED", 3)
    monkeypatch.setattr(recovery, "MAX_ASKED", 3)
    cluster[0].node.controller.create("many", [(0, 1)] * 10)
    await cluster.settle()
    for index in range(10):
        await cluster[0].produce("many", batch(b"a"), partition=index, acks=1)
    for _ in range(5):
        await cluster.fetch(1, 0)
    copies = cluster[1].node.topics.find("many").partitions
    assert [copy.log.end for copy in copies] == [1] * 10

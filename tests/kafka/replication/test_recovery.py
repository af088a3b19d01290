"""A broker that lost its memory takes back topics and records from the others; virtual time."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.replication.recovery import take_back
from tests.kafka.made_batches import batch, records_in
from tests.kafka.replication.socketless_cluster import Carrier

pytestmark = pytest.mark.asyncio


def values_of(cluster, number: int, topic: str = "t") -> list[bytes]:
    log = cluster.partition(number, topic).log
    views = log.read(log.start, log.end, 1 << 30, at_least_one=False)
    return [read.value for read in records_in(b"".join(views)) if read.offset >= log.start]


async def topic_with(cluster, *values: bytes, placement=((0, 1, 2),)) -> None:
    cluster[0].node.controller.create("t", placement)
    await cluster.settle()
    leader = placement[0][0]
    for value in values:
        await cluster[leader].produce("t", batch(value), acks=1)
    await cluster.settle()


async def test_a_restarted_controller_has_its_topics_and_records(cluster):
    await topic_with(cluster, b"a", b"b", placement=((0, 1, 2), (1, 2, 0)))
    topic_id = cluster[1].node.topics.find("t").id
    await cluster.restart(0, 1, 2)
    assert cluster[0].node.topics.find("t").id == topic_id
    assert values_of(cluster, 0) == [b"a", b"b"]
    assert cluster.partition(0, "t").high_watermark == 2
    await cluster.settle()
    for number in (1, 2):
        assert cluster[number].node.topics.find("t").id == topic_id
        assert values_of(cluster, number) == [b"a", b"b"]
    assert cluster.partition(0, "t").replicas_in_sync == (0, 1, 2)


async def test_followers_keep_their_copies_when_their_leader_returns(cluster, caplog):
    """Or the leader would be alone with the records, and a second restart would lose them."""
    await topic_with(cluster, b"a")
    await cluster.restart(0, 1)
    await cluster[0].produce("t", batch(b"b"), acks=1)
    await cluster.settle()
    assert values_of(cluster, 1) == values_of(cluster, 2) == [b"a", b"b"]
    assert "<Partition t-" not in caplog.text


async def test_the_copy_that_goes_furthest_is_taken(cluster):
    await topic_with(cluster, b"a")
    await cluster[0].produce("t", batch(b"b"), acks=1)
    await cluster.fetch(2, 0)
    await cluster.restart(0, 1, 2)
    assert values_of(cluster, 0) == [b"a", b"b"]


async def test_a_later_epoch_goes_further_than_a_greater_offset(cluster):
    await topic_with(cluster, b"a")
    await cluster[0].produce("t", batch(b"lost", b"lost"), acks=1)
    await cluster.fetch(1, 0)
    await cluster.restart(0, 2)
    await cluster[0].produce("t", batch(b"new"), acks=1)
    await cluster.fetch(2, 0)
    await cluster.fetch(2, 0)
    assert cluster.partition(1, "t").log.end > cluster.partition(2, "t").log.end
    await cluster.restart(0, 1, 2)
    assert values_of(cluster, 0) == [b"a", b"new"]
    await cluster.settle()
    assert values_of(cluster, 1) == values_of(cluster, 2) == [b"a", b"new"]


async def test_what_a_follower_alone_has_is_dropped_with_a_warning(cluster, caplog):
    await topic_with(cluster, b"a")
    await cluster[0].produce("t", batch(b"only here"), acks=1)
    await cluster.fetch(1, 0)
    await cluster.restart(0, 2)
    await cluster[0].produce("t", batch(b"b"), acks=1)
    await cluster.settle()
    assert values_of(cluster, 1) == [b"a", b"b"]
    assert "drops its records up to offset 2" in caplog.text


async def test_a_batch_sent_again_after_the_restart_is_recognised(cluster):
    await topic_with(cluster, b"a")
    sent = batch(b"x", producer=(9, 0, 0))
    await cluster[0].produce("t", sent, acks=1)
    await cluster.settle()
    await cluster.restart(0, 1)
    answer = await cluster[0].produce("t", sent, acks=1)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 1)
    assert values_of(cluster, 0) == [b"a", b"x"]


async def test_deleted_records_stay_deleted(cluster):
    await topic_with(cluster, b"a", b"b", b"c")
    cluster.partition(0, "t").delete_before(2)
    await cluster.settle()
    await cluster.restart(0, 1, 2)
    assert (cluster.partition(0, "t").log.start, values_of(cluster, 0)) == (2, [b"c"])


async def test_a_broker_that_is_lost_meanwhile_is_left_out(cluster):
    class Dying(Carrier):
        """Answers for its topics and how far it goes, and no more."""

        left = 2

        async def ask(self, key, version, **values):
            self.left -= 1
            if self.left < 0:
                raise EOFError("the broker died")
            return await super().ask(key, version, **values)

    await topic_with(cluster, b"a")
    await cluster[0].produce("t", batch(b"b" * (11 << 20)), acks=1)
    cluster.start(0)
    await take_back(cluster[0].node, {1: Dying(cluster[1], waits=False), 2: Carrier(cluster[2], waits=False)})
    assert values_of(cluster, 0) == [b"a"]


async def test_a_restarted_leader_besides_the_controller_recovers(cluster):
    await topic_with(cluster, b"a", placement=((1, 2),))
    await cluster.restart(1, 0, 2)
    await cluster.settle()
    assert values_of(cluster, 1) == values_of(cluster, 2) == [b"a"]

"""A broker that lost its memory takes back topics and records from the others; virtual time."""

import pytest

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.replication.recovery import take_back
from tests.kafka.made_batches import batch, records_in
from tests.kafka.replication.desks import Carrier

pytestmark = pytest.mark.asyncio


def values_of(desks, number: int, topic: str = "t") -> list[bytes]:
    log = desks.partition(number, topic).log
    views = log.read(log.start, log.end, 1 << 30, at_least_one=False)
    return [read.value for read in records_in(b"".join(views)) if read.offset >= log.start]


async def topic_with(desks, *values: bytes, placement=((0, 1, 2),)) -> None:
    desks[0].node.controller.create("t", placement)
    await desks.settle()
    leader = placement[0][0]
    for value in values:
        await desks[leader].produce("t", batch(value), acks=1)
    await desks.settle()


async def test_a_restarted_controller_has_its_topics_and_records(desks):
    await topic_with(desks, b"a", b"b", placement=((0, 1, 2), (1, 2, 0)))
    topic_id = desks[1].node.topics.find("t").id
    await desks.restart(0, 1, 2)
    assert desks[0].node.topics.find("t").id == topic_id
    assert values_of(desks, 0) == [b"a", b"b"]
    assert desks.partition(0, "t").high_watermark == 2
    await desks.settle()
    for number in (1, 2):
        assert desks[number].node.topics.find("t").id == topic_id
        assert values_of(desks, number) == [b"a", b"b"]
    assert desks.partition(0, "t").replicas_in_sync == (0, 1, 2)


async def test_followers_keep_their_copies_when_their_leader_returns(desks, caplog):
    """Or the leader would be alone with the records, and a second restart would lose them."""
    await topic_with(desks, b"a")
    await desks.restart(0, 1)
    await desks[0].produce("t", batch(b"b"), acks=1)
    await desks.settle()
    assert values_of(desks, 1) == values_of(desks, 2) == [b"a", b"b"]
    assert "<Partition t-" not in caplog.text


async def test_the_copy_that_goes_furthest_is_taken(desks):
    await topic_with(desks, b"a")
    await desks[0].produce("t", batch(b"b"), acks=1)
    await desks.fetch(2, 0)
    await desks.restart(0, 1, 2)
    assert values_of(desks, 0) == [b"a", b"b"]


async def test_a_later_epoch_goes_further_than_a_greater_offset(desks):
    await topic_with(desks, b"a")
    await desks[0].produce("t", batch(b"lost", b"lost"), acks=1)
    await desks.fetch(1, 0)
    await desks.restart(0, 2)
    await desks[0].produce("t", batch(b"new"), acks=1)
    await desks.fetch(2, 0)
    await desks.fetch(2, 0)
    assert desks.partition(1, "t").log.end > desks.partition(2, "t").log.end
    await desks.restart(0, 1, 2)
    assert values_of(desks, 0) == [b"a", b"new"]
    await desks.settle()
    assert values_of(desks, 1) == values_of(desks, 2) == [b"a", b"new"]


async def test_what_a_follower_alone_has_is_dropped_with_a_warning(desks, caplog):
    await topic_with(desks, b"a")
    await desks[0].produce("t", batch(b"only here"), acks=1)
    await desks.fetch(1, 0)
    await desks.restart(0, 2)
    await desks[0].produce("t", batch(b"b"), acks=1)
    await desks.settle()
    assert values_of(desks, 1) == [b"a", b"b"]
    assert "drops its records up to offset 2" in caplog.text


async def test_a_batch_sent_again_after_the_restart_is_recognised(desks):
    await topic_with(desks, b"a")
    sent = batch(b"x", producer=(9, 0, 0))
    await desks[0].produce("t", sent, acks=1)
    await desks.settle()
    await desks.restart(0, 1)
    answer = await desks[0].produce("t", sent, acks=1)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 1)
    assert values_of(desks, 0) == [b"a", b"x"]


async def test_deleted_records_stay_deleted(desks):
    await topic_with(desks, b"a", b"b", b"c")
    desks.partition(0, "t").delete_before(2)
    await desks.settle()
    await desks.restart(0, 1, 2)
    assert (desks.partition(0, "t").log.start, values_of(desks, 0)) == (2, [b"c"])


async def test_a_broker_that_is_lost_meanwhile_is_left_out(desks):
    class Dying(Carrier):
        """Answers for its topics and how far it goes, and no more."""

        left = 2

        async def ask(self, key, version, **values):
            self.left -= 1
            if self.left < 0:
                raise EOFError("the broker died")
            return await super().ask(key, version, **values)

    await topic_with(desks, b"a")
    await desks[0].produce("t", batch(b"b" * (11 << 20)), acks=1)
    desks.start(0)
    await take_back(desks[0].node, {1: Dying(desks[1], waits=False), 2: Carrier(desks[2], waits=False)})
    assert values_of(desks, 0) == [b"a"]


async def test_a_restarted_leader_besides_the_controller_recovers(desks):
    await topic_with(desks, b"a", placement=((1, 2),))
    await desks.restart(1, 0, 2)
    await desks.settle()
    assert values_of(desks, 1) == values_of(desks, 2) == [b"a"]

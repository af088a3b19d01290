"""The fixture ``kafka_broker``: what a test can do to its broker, on real sockets and virtual sessions."""

import asyncio
import socket

import pytest

from purgatory_async import OperationExpired
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.requests import APIS
from purgatory_async.kafka.testing.refusals import API_KEYS
from purgatory_async.testing import settle
from tests.kafka import protocol
from tests.kafka.made_batches import batch, records_in
from tests.kafka.plain_client import PlainClient
from tests.kafka.socketless import fetched, produced

pytestmark = pytest.mark.asyncio

LONG_MS = 60_000
LEADERLESS = ErrorCode.not_leader_or_follower
JOIN_GROUP, HEARTBEAT = 11, 12
MEMBER = {
    "group_id": "g",
    "session_timeout": 1_800_000,
    "rebalance_timeout": 1_800_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


async def write(client, topic="t", *, acks=-1, value=b"v"):
    """Produce a record; the answer for its partition."""
    answer = await client.ask(protocol.PRODUCE, 9, **produced(topic, batch(value), acks=acks))
    return answer.responses[0].partition_responses[0]


async def read(client, offset=0, *, max_wait=0):
    """The values that a consumer gets."""
    answer = await client.ask(protocol.FETCH, 12, **fetched("t", offset, max_wait=max_wait))
    return [record.value for record in records_in(answer.responses[0].partitions[0].records)]


# Records.


async def test_a_client_reads_what_the_test_produced(kafka_broker):
    assert await kafka_broker.produce("t", b"a", None, b"c", key=b"k") == range(3)
    async with PlainClient(kafka_broker) as client:
        assert await read(client) == [b"a", None, b"c"]


async def test_produced_records_complete_a_held_fetch(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    async with PlainClient(kafka_broker) as client:
        held = asyncio.create_task(read(client, max_wait=LONG_MS))
        await kafka_broker.next_request("Fetch")
        await kafka_broker.produce("t", b"a")
        assert await held == [b"a"]


@pytest.mark.kafka_broker(partitions=2)
async def test_records_show_all_fields_by_partition(kafka_broker):
    await kafka_broker.produce("t", b"b", partition=1)
    await kafka_broker.produce("t", b"a", key=b"k", headers=[("h", b"x"), ("n", None)], timestamp_ms=1_234)
    first, second = kafka_broker.records("t")
    assert (first.partition, first.offset, first.timestamp_ms) == (0, 0, 1_234)
    assert (first.key, first.value, first.headers) == (b"k", b"a", (("h", b"x"), ("n", None)))
    assert (second.partition, second.key, second.headers) == (1, None, ())
    assert kafka_broker.records("t", 1) == [second]


async def test_deleted_records_are_not_read(kafka_broker):
    await kafka_broker.produce("t", b"a", b"b", b"c")
    kafka_broker.node.topics.partition("t", 0).delete_before(1)
    assert [record.offset for record in kafka_broker.records("t")] == [1, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda broker: broker.produce("t", "a"), TypeError, "bytes or None, got 'a'; encode"),
        (lambda broker: broker.produce("t"), ValueError, "at least one"),
        (lambda broker: broker.produce("t", b"a", partition=7), ProtocolError, "partition 7"),
        (lambda broker: broker.records("t"), ProtocolError, "'t' must exist"),
        (lambda broker: broker.pause("t"), ProtocolError, "'t' must exist"),
        (lambda broker: broker.hold("Prodcue"), ValueError, "Produce, .*DescribeCluster, got 'Prodcue'"),
        (lambda broker: broker.fail_next("Fetch", "NONE"), ValueError, "NOT_LEADER_OR_FOLLOWER.*'NONE'"),
        (lambda broker: broker.fail_next("Fetch", "CORRUPT_MESSAGE", times=0), ValueError, "1, got 0"),
        (lambda broker: broker.expire_session("g"), ValueError, "got 'g'"),
    ],
)
async def test_a_wrong_argument_is_refused_with_its_value(kafka_broker, call, error, message):
    with pytest.raises(error, match=message):
        await call(kafka_broker)


async def test_committed_offsets_are_read_by_partition(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    assert kafka_broker.committed("g") == {}
    async with PlainClient(kafka_broker) as client:
        await client.ask(API_KEYS["OffsetCommit"], 8, **REFUSABLE["OffsetCommit"])
    assert kafka_broker.committed("g") == {("t", 0): 1}


# Refusals.


async def test_a_refused_produce_appends_nothing(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    async with PlainClient(kafka_broker) as client:
        refusal = kafka_broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        assert [(await write(client)).error_code for _ in range(3)] == [
            LEADERLESS,
            LEADERLESS,
            ErrorCode.none,
        ]
        assert refusal.left == 0
        assert len(kafka_broker.records("t")) == 1


async def test_refusals_are_used_in_the_order_they_were_asked(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    async with PlainClient(kafka_broker) as client:
        kafka_broker.fail_next("Produce", "leader_not_available")
        kafka_broker.fail_next("Produce", "CORRUPT_MESSAGE")
        codes = [(await write(client)).error_code for _ in range(2)]
        assert codes == [ErrorCode.leader_not_available, ErrorCode.corrupt_message]


async def test_an_answer_without_room_for_it_keeps_the_refusal(kafka_broker):
    async with PlainClient(kafka_broker) as client:
        refusal = kafka_broker.fail_next("Metadata", "LEADER_NOT_AVAILABLE")
        assert (await client.ask(protocol.METADATA, 9, topics=None)).topics == ()
        assert refusal.left == 1
        named = await client.ask(protocol.METADATA, 9, topics=[{"name": "t"}], allow_auto_topic_creation=True)
        assert [topic.error_code for topic in named.topics] == [ErrorCode.leader_not_available]
        assert [broker.port for broker in named.brokers] == [kafka_broker.port]
        assert "t" not in kafka_broker.node.topics


IDENTIFIED = {"member_id": "m", "generation_id": 1}
RESOURCE = {"resource_type": 2, "resource_name": "t"}
REFUSABLE = {
    "Produce": produced("t", batch(b"v")),
    "Fetch": fetched("t", 0),
    "ListOffsets": {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    "Metadata": {"topics": [{"name": "t"}]},
    "OffsetCommit": {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    },
    "OffsetFetch": {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]},
    "FindCoordinator": {"coordinator_keys": ["g"]},
    "JoinGroup": MEMBER,
    "Heartbeat": {"group_id": "g", **IDENTIFIED},
    "LeaveGroup": {"group_id": "g", "members": [{"member_id": "m"}]},
    "SyncGroup": {"group_id": "g", **IDENTIFIED},
    "DescribeGroups": {"groups": ["g"]},
    "ListGroups": {},
    "ApiVersions": {"client_software_name": "tester", "client_software_version": "1"},
    "CreateTopics": {"topics": [{"name": "u", "num_partitions": 1, "replication_factor": 1}]},
    "DeleteTopics": {"topics": [{"name": "t"}]},
    "DeleteRecords": {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]},
    "InitProducerId": {},
    "DescribeCluster": {},
    "DeleteGroups": {"groups_names": ["g"]},
    "OffsetDelete": {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    "DescribeTopicPartitions": {"topics": [{"name": "t"}]},
    "DescribeLogDirs": {"topics": None},
    "AlterReplicaLogDirs": {
        "dirs": [{"path": "/memory", "topics": [{"name": "t", "partitions": [0]}]}],
    },
    "ElectLeaders": {"topic_partitions": [{"topic": "t", "partitions": [0]}]},
    "AlterPartitionReassignments": {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    "ListPartitionReassignments": {"topics": None},
    "ConsumerGroupHeartbeat": {"group_id": "g"},
    "ShareGroupHeartbeat": {"group_id": "g"},
    "CreatePartitions": {"topics": [{"name": "t", "count": 2, "assignments": None}]},
    "DescribeConfigs": {"resources": [{**RESOURCE, "configuration_keys": None}]},
    "AlterConfigs": {"resources": [{**RESOURCE, "configs": [{"name": "retention.ms", "value": "1"}]}]},
    "IncrementalAlterConfigs": {
        "resources": [
            {**RESOURCE, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}]}
        ]
    },
}


@pytest.mark.parametrize("api", API_KEYS)
async def test_every_api_can_be_refused_without_effect(kafka_broker, api):
    kafka_broker.create_topic("t", partitions=1)
    key = API_KEYS[api]
    async with PlainClient(kafka_broker) as client:
        refusal = kafka_broker.fail_next(api, "POLICY_VIOLATION")
        answer = await client.ask(key, APIS[key].most, **REFUSABLE[api])
    assert refusal.left == 0
    assert "policy_violation" in repr(answer)
    assert [topic.name for topic in kafka_broker.node.topics] == ["t"]
    assert (kafka_broker.records("t"), list(kafka_broker.node.groups)) == ([], [])
    (topic,) = kafka_broker.node.topics
    assert (len(topic.partitions), topic.configs) == (1, {})


async def test_a_topic_is_created_with_its_configs(kafka_broker):
    kafka_broker.create_topic("t", partitions=1, configs={"cleanup.policy": "compact"})
    await kafka_broker.produce("t", b"kept", None, key=b"k")
    with pytest.raises(ProtocolError, match="must have a key"):
        await kafka_broker.produce("t", b"v")
    with pytest.raises(ProtocolError, match="must be some of compact, delete"):
        kafka_broker.create_topic("u", partitions=1, configs={"cleanup.policy": "shred"})
    assert [record.value for record in kafka_broker.records("t")] == [b"kept", None]


async def test_records_have_the_brokers_time_if_it_is_wanted(kafka_broker):
    kafka_broker.node.now_ms = lambda: 5_000
    kafka_broker.create_topic("t", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    await kafka_broker.produce("t", b"a", b"b", timestamp_ms=1_000)
    assert [record.timestamp_ms for record in kafka_broker.records("t")] == [5_000, 5_000]


# Pauses and holds.


async def test_a_paused_partition_holds_acks_all_and_consumers(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    async with PlainClient(kafka_broker) as producer, PlainClient(kafka_broker) as consumer:
        with kafka_broker.pause("t", 0):
            writing = asyncio.create_task(write(producer))
            await kafka_broker.next_request("Produce")
            assert await read(consumer) == []
            assert (writing.done(), kafka_broker.node.produce.pending) == (False, 1)
            assert len(kafka_broker.records("t")) == 1
        assert (await writing).error_code is ErrorCode.none
        assert await read(consumer) == [b"v"]


async def test_a_pause_without_a_block_lasts_until_resume(kafka_broker):
    kafka_broker.create_topic("t", partitions=2)
    kafka_broker.pause("t")
    await kafka_broker.produce("t", b"a")
    async with PlainClient(kafka_broker) as consumer:
        assert await read(consumer) == []
        kafka_broker.resume("t")
        assert await read(consumer) == [b"a"]


async def test_a_held_api_is_served_after_its_release(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    async with PlainClient(kafka_broker) as held, PlainClient(kafka_broker) as other:
        with kafka_broker.hold("Produce"):
            writing = asyncio.create_task(write(held, acks=1))
            await kafka_broker.next_request("Produce")
            assert await read(other) == []
            assert kafka_broker.records("t") == []
        assert (await writing).error_code is ErrorCode.none
        assert await read(other) == [b"v"]


async def test_a_held_client_that_goes_leaves_nothing(kafka_broker):
    kafka_broker.create_topic("t", partitions=1)
    with kafka_broker.hold("Produce"):
        async with PlainClient(kafka_broker) as client:
            client.send(protocol.PRODUCE, 9, **produced("t", batch(b"v")))
            await kafka_broker.next_request("Produce")
        async with PlainClient(kafka_broker) as other:
            await read(other)  # the loop has seen the other connection end by then
    await settle()
    assert kafka_broker.records("t") == []


async def test_waiting_for_a_request_ends_with_its_timeout(kafka_broker):
    with pytest.raises(OperationExpired):
        await kafka_broker.next_request("Produce", timeout=0)


# Restarts.


async def test_a_stopped_broker_is_gone_until_it_starts(kafka_broker):
    await kafka_broker.produce("t", b"a")
    port = kafka_broker.port
    async with PlainClient(kafka_broker) as client:
        for _ in range(2):
            await kafka_broker.stop()
            assert await client.closed()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        await kafka_broker.start()
        async with PlainClient(kafka_broker) as client:
            assert (await read(client), kafka_broker.port) == ([b"a"], port)


async def test_a_connection_just_made_is_dropped_by_stop(kafka_broker):
    with socket.create_connection((kafka_broker.host, kafka_broker.port)) as client:
        await kafka_broker.stop()
        client.settimeout(10)
        assert client.recv(1) == b""


async def test_a_stopped_broker_keeps_its_port_from_clients(kafka_broker):
    await kafka_broker.stop()
    with socket.socket() as client, pytest.raises(OSError, match="in use"):
        client.bind((kafka_broker.host, kafka_broker.port))  # as the kernel does for a client's own end


async def test_a_port_taken_meanwhile_is_an_error_of_start(kafka_broker):
    await kafka_broker.stop()
    with socket.create_server((kafka_broker.host, kafka_broker.port)), pytest.raises(OSError, match="in use"):
        await kafka_broker.start()
    await kafka_broker.start()
    async with PlainClient(kafka_broker) as client:
        await client.ask(protocol.METADATA, 9, topics=None)


# Sessions.


async def join(client):
    """Join the group as a new member; its id."""
    refused = await client.ask(JOIN_GROUP, 9, **MEMBER)
    assert refused.error_code is ErrorCode.member_id_required
    joined = await client.ask(JOIN_GROUP, 9, **MEMBER, member_id=refused.member_id)
    assert joined.error_code is ErrorCode.none
    return joined.member_id


async def test_an_expired_session_is_unknown_to_its_member(kafka_broker):
    async with PlainClient(kafka_broker) as client:
        member_id = await join(client)
        assert kafka_broker.expire_session("g") == (member_id,)
        beat = await client.ask(HEARTBEAT, 4, group_id="g", generation_id=1, member_id=member_id)
        assert beat.error_code is ErrorCode.unknown_member_id


async def test_half_an_hour_of_silence_passes_at_once(kafka_broker, manual_clock):
    async with PlainClient(kafka_broker) as client:
        member_id = await join(client)
        manual_clock.advance(1_799)
        assert [member.id for member in kafka_broker.node.groups.members("g")] == [member_id]
        manual_clock.advance(1)
        assert kafka_broker.node.groups.members("g") == ()


async def test_a_held_fetch_waits_on_the_tests_clock(kafka_broker, manual_clock):
    kafka_broker.create_topic("t", partitions=1)
    async with PlainClient(kafka_broker) as client:
        held = asyncio.create_task(read(client, max_wait=LONG_MS))
        await kafka_broker.next_request("Fetch")
        manual_clock.advance(LONG_MS / 1_000)
        assert await held == []


@pytest.mark.kafka_broker(partitions=3, max_bytes=10)
async def test_the_marker_gives_the_broker_its_settings(kafka_broker):
    assert (kafka_broker.node.settings.partitions, kafka_broker.node.settings.rebalance_delay) == (3, 0.0)
    with pytest.raises(ProtocolError, match="raise max_bytes") as caught:
        await kafka_broker.produce("t", b"more than ten bytes")
    assert caught.value.code is ErrorCode.kafka_storage_error
    assert kafka_broker.records("t") == []

"""Unmodified clients that are not Python's: each reads what it and others wrote, with every codec."""

import asyncio
from collections.abc import Awaitable

import pytest
import pytest_asyncio
from confluent_kafka.admin import OffsetSpec

from purgatory_async.kafka import Broker
from tests.kafka.programs import CLIENTS_OF_OTHER_LANGUAGES, said
from tests.kafka.test_clients import (
    CODECS,
    TIMES,
    VALUES,
    consume_confluent,
    found_by_confluent,
    is_compressed,
    listed_by_confluent,
    produce_at,
    produce_confluent,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["uvloop"])]

LINES = b"\n".join(VALUES)
FETCH = 1
OTHER = {"kafkajs": "java", "java": "kafkajs"}


@pytest_asyncio.fixture
async def broker():
    async with Broker(partitions=2, rebalance_delay=0) as running:
        yield running


async def consumed(client, broker, topic):
    """What a client reads, of as many records as were sent."""
    events = await said(client, "consume", broker.address, topic, str(len(VALUES)))
    return [event["value"].encode() for event in events if "value" in event]


@pytest.mark.parametrize("codec", CODECS)
@CLIENTS_OF_OTHER_LANGUAGES
async def test_others_read_what_it_wrote(broker, client, codec):
    produced = await said(client, "produce", broker.address, "t", "all", codec, "true", given=LINES)
    assert produced == [{"offset": 0}]
    assert is_compressed(broker, "t") == (codec != "none")
    assert await asyncio.to_thread(consume_confluent, broker.address, "t") == VALUES
    for reader in (client, OTHER[client]):
        assert await consumed(reader, broker, "t") == VALUES


@pytest.mark.parametrize("codec", CODECS)
@CLIENTS_OF_OTHER_LANGUAGES
async def test_it_reads_what_librdkafka_wrote(broker, client, codec):
    await asyncio.to_thread(produce_confluent, broker.address, "t", codec)
    assert await consumed(client, broker, "t") == VALUES


@pytest.mark.parametrize("acks", ["0", "1"])
@CLIENTS_OF_OTHER_LANGUAGES
async def test_it_produces_with_fewer_acknowledgements(broker, client, acks):
    await said(client, "produce", broker.address, "t", acks, "none", "false", given=LINES)
    assert await asyncio.to_thread(consume_confluent, broker.address, "t") == VALUES


@CLIENTS_OF_OTHER_LANGUAGES
async def test_its_admin_creates_trims_and_deletes(broker, client):
    made = await said(client, "admin", broker.address, "create t 3", "create t 3", "topic t", "topics")
    again = {"kafkajs": {"created": False}, "java": {"error": "TOPIC_ALREADY_EXISTS"}}
    assert made == [{"created": True}, again[client], {"partitions": 3}, {"topics": ["t"]}]
    await asyncio.to_thread(produce_confluent, broker.address, "t", "lz4")
    steps = ["trim t 100", "trim t 301", "topics", "delete t", "topics"]
    assert await said(client, "admin", broker.address, *steps) == [
        {"low": 100, "high": len(VALUES)},
        {"error": "OFFSET_OUT_OF_RANGE"},
        {"topics": ["t"]},
        {"deleted": "t"},
        {"topics": []},
    ]


@CLIENTS_OF_OTHER_LANGUAGES
async def test_its_admin_commits_and_describes_groups(broker, client):
    broker.node.topics.create("t")
    steps = ["groups", "commit g t 7", "groups", "group g"]
    assert await said(client, "admin", broker.address, *steps) == [
        {"groups": []},
        {"committed": 7},
        {"groups": ["g"]},
        {"state": "Empty", "members": 0, "offsets": {"t-0": 7}},
    ]


@CLIENTS_OF_OTHER_LANGUAGES
async def test_its_admin_finds_records_and_trims_again(broker, client):
    await asyncio.to_thread(produce_at, broker.address, "t", "gzip")
    found = [
        {"offset": 1, "timestamp": 2_000},
        {"offset": -1, "timestamp": -1},
        {"offset": 3, "timestamp": 3_000},
    ]
    if client == "kafkajs":  # it shows no timestamps, and the end where there is no record
        found = [{"offset": 1}, {"offset": len(TIMES)}, {"offset": 3}]
    trimmed = [{"low": 3, "high": len(TIMES)}] * 2
    steps = ["at t 2000", "at t 9000", "trim t 3", "trim t 1", "at t 2000"]
    assert await said(client, "admin", broker.address, *steps) == [*found[:2], *trimmed, found[2]]


@pytest.mark.parametrize("codec", ["none", "gzip"])
@CLIENTS_OF_OTHER_LANGUAGES
async def test_its_records_are_found_by_their_times(broker, client, codec):
    sent = client, "produce", broker.address
    times = map(str, TIMES)
    await said(*sent, "t", "all", codec, "true", *times, given=b"a\nb\nc\nd")
    for wanted, found in ((2_000, (1, 2_000)), (4_000, (2, 5_000))):
        assert await asyncio.to_thread(found_by_confluent, broker.address, wanted) == found
    newest = OffsetSpec.max_timestamp()
    assert await asyncio.to_thread(listed_by_confluent, broker.address, newest) == (2, 5_000)
    # Records without a time of their own have the present one, which kafkajs leaves out of the batch's header.
    await said(*sent, "t", "all", codec, "true", "1000", given=b"e\nf")
    assert (await asyncio.to_thread(found_by_confluent, broker.address, 5_001))[0] == 5


async def test_javas_admin_finds_the_newest_and_topics_by_id(broker):
    await asyncio.to_thread(produce_at, broker.address, "t", "zstd")
    steps = ["newest t", "trim t 3", "newest t", "known t", "create x.1 1", "create x_1 1"]
    assert await said("java", "admin", broker.address, *steps) == [
        {"offset": 2, "timestamp": 5_000},
        {"low": 3, "high": len(TIMES)},
        {"offset": 3, "timestamp": 3_000},
        {"known": "t"},
        {"created": True},
        {"error": "INVALID_TOPIC_EXCEPTION"},
    ]


class FetchesSeen(Broker):
    """A broker that notes of each fetch its session epoch, its topics and whether it waits."""

    def __init__(self) -> None:
        super().__init__(partitions=2)
        self.seen = []

    def answer(self, api, request, client):
        answer = super().answer(api, request, client)
        if api.key == FETCH:
            self.seen.append((request.session_epoch, len(request.topics), isinstance(answer, Awaitable)))
        return answer


async def test_the_empty_fetch_of_javas_close_is_answered_at_once():
    async with FetchesSeen() as broker:
        await asyncio.to_thread(produce_confluent, broker.address, "t", "none")
        *_, last = await said("java", "consume", broker.address, "t", str(len(VALUES)))
        assert last == {"closed": True}
        assert broker.seen[-1] == (-1, 0, False)

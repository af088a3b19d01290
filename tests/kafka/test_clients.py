"""Unmodified clients: each produces with every codec it has, and reads what it and the others wrote."""

import asyncio
import contextlib
import time

import confluent_kafka
import kafka
import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from purgatory_async.kafka import Broker
from purgatory_async.kafka.requests import APIS
from tests.kafka.made_batches import batch, records_in

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
VALUES = [f"value {number} {'x' * 50}".encode() for number in range(300)]
TIMES = [1_000, 2_000, 5_000, 3_000]
PATIENCE_S = 60
FIND_COORDINATOR = 10  # librdkafka compresses with lz4 only for a broker that offers it


@pytest_asyncio.fixture
async def broker():
    async with Broker(partitions=2, rebalance_delay=0) as running:
        yield running


def is_compressed(broker, topic: str) -> bool:
    """Whether the stored batches are much shorter than their values."""
    return broker.node.topics.partition(topic, 0).log.size_bytes < sum(map(len, VALUES)) / 2


def produce_confluent(address: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "compression.type": codec, "enable.idempotence": True, "linger.ms": 50}
    )
    failed = []
    for value in VALUES:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == [None] * len(VALUES)


def reader(address: str, **configuration):
    """A consumer without a group's offsets."""
    return confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False, **configuration}
    )


def consume_confluent(address: str, topic: str) -> list[bytes]:
    consumer = reader(address)
    with contextlib.closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values, end = [], time.monotonic() + PATIENCE_S
        while len(values) < len(VALUES) and time.monotonic() < end:
            for message in consumer.consume(len(VALUES), 0.2):
                assert message.error() is None
                values.append(message.value())
    return values


def produce_kafka_python(address: str, topic: str, codec: str) -> None:
    with contextlib.closing(
        kafka.KafkaProducer(
            bootstrap_servers=address, compression_type=None if codec == "none" else codec, linger_ms=50
        )
    ) as producer:
        sent = [producer.send(topic, value, partition=0) for value in VALUES]
        assert [one.get(PATIENCE_S).offset for one in sent] == list(range(len(VALUES)))


def consume_kafka_python(address: str, topic: str) -> list[bytes]:
    with contextlib.closing(
        kafka.KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=PATIENCE_S * 1_000)
    ) as consumer:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        return [message.value for _, message in zip(VALUES, consumer, strict=False)]


async def produce_aiokafka(address: str, topic: str, codec: str) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=address, compression_type=None if codec == "none" else codec, linger_ms=50
    ) as producer:
        sent = [await producer.send(topic, value, partition=0) for value in VALUES]
        assert [(await one).offset for one in sent] == list(range(len(VALUES)))


async def consume_aiokafka(address: str, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=address)
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        await consumer.seek_to_beginning()
        return [(await consumer.getone()).value for _ in VALUES]


PRODUCERS = {
    "aiokafka": produce_aiokafka,
    "confluent": produce_confluent,
    "kafka-python": produce_kafka_python,
}
CONSUMERS = {
    "aiokafka": consume_aiokafka,
    "confluent": consume_confluent,
    "kafka-python": consume_kafka_python,
}


async def run(function, *arguments):
    """Run a client: on the broker's loop, or in a thread beside it."""
    if asyncio.iscoroutinefunction(function):
        return await asyncio.wait_for(function(*arguments), PATIENCE_S)
    return await asyncio.to_thread(function, *arguments)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", PRODUCERS)
async def test_every_client_reads_what_each_wrote(broker, producer, codec):
    await run(PRODUCERS[producer], broker.address, "t", codec)
    if producer != "confluent" or codec != "lz4" or FIND_COORDINATOR in APIS:
        assert is_compressed(broker, "t") == (codec != "none")
    for consume in CONSUMERS.values():
        assert await run(consume, broker.address, "t") == VALUES


def produce_at(address: str, topic: str, codec: str) -> None:
    """One batch of records with `TIMES`."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 200}
    )
    for at_ms in TIMES:
        producer.produce(topic, VALUES[0], partition=0, timestamp=at_ms)
    assert producer.flush(PATIENCE_S) == 0


def found_by_confluent(address: str, at_ms: int) -> tuple[int, int]:
    with contextlib.closing(reader(address)) as consumer:
        (found,) = consumer.offsets_for_times([confluent_kafka.TopicPartition("t", 0, at_ms)], PATIENCE_S)
    listed = listed_by_confluent(address, OffsetSpec.for_timestamp(at_ms))
    assert found.offset == listed[0]
    return listed


def listed_by_confluent(address: str, wanted) -> tuple[int, int]:
    first = confluent_kafka.TopicPartition("t", 0)
    admin = AdminClient({"bootstrap.servers": address})  # the answer is lost with the client
    listed = admin.list_offsets({first: wanted})[first].result(PATIENCE_S)
    return listed.offset, listed.timestamp


def found_by_kafka_python(address: str, at_ms: int) -> tuple[int, int]:
    with contextlib.closing(kafka.KafkaConsumer(bootstrap_servers=address)) as consumer:
        (found,) = consumer.offsets_for_times({kafka.TopicPartition("t", 0): at_ms}).values()
    return found.offset, found.timestamp


async def found_by_aiokafka(address: str, at_ms: int) -> tuple[int, int]:
    async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
        (found,) = (await consumer.offsets_for_times({TopicPartition("t", 0): at_ms})).values()
    return found.offset, found.timestamp


@pytest.mark.parametrize("codec", CODECS)
async def test_every_client_finds_a_record_by_its_time(broker, codec):
    await run(produce_at, broker.address, "t", codec)
    finders = found_by_aiokafka, found_by_confluent, found_by_kafka_python
    for find in finders:
        assert await run(find, broker.address, 2_000) == (1, 2_000)
        assert await run(find, broker.address, 2_001) == (2, 5_000)
    assert await run(listed_by_confluent, broker.address, OffsetSpec.max_timestamp()) == (2, 5_000)
    broker.node.topics.partition("t", 0).delete_before(3)
    for find in finders:
        assert await run(find, broker.address, 2_001) == (3, 3_000)
    assert await run(listed_by_confluent, broker.address, OffsetSpec.max_timestamp()) == (3, 3_000)


def noted_by_kafka_python(address: str, note: str | None) -> tuple[int, str | None]:
    """A committed offset and its note, as they are fetched back."""
    first = kafka.TopicPartition("t", 0)
    with contextlib.closing(kafka.KafkaConsumer(bootstrap_servers=address, group_id="g")) as consumer:
        consumer.assign([first])
        consumer.commit({first: kafka.OffsetAndMetadata(7, note, -1)})
        fetched = consumer.committed(first, metadata=True)
    return fetched.offset, fetched.metadata


async def test_a_note_of_null_comes_back_empty(broker):
    broker.node.topics.create("t")
    assert await run(noted_by_kafka_python, broker.address, None) == (7, "")
    assert await run(noted_by_kafka_python, broker.address, "n") == (7, "n")


def administer(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("made", 3, 1)])["made"].result(PATIENCE_S)
    described = admin.list_topics(timeout=PATIENCE_S)
    assert [len(described.topics["made"].partitions), len(described.brokers)] == [3, 1]
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic("made", 3, 1)])["made"].result(PATIENCE_S)
    produce_confluent(address, "made", "lz4")
    first = confluent_kafka.TopicPartition("made", 0, 100)
    (deleted,) = admin.delete_records([first]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 100
    (again,) = admin.delete_records([confluent_kafka.TopicPartition("made", 0, 50)]).values()
    assert again.result(PATIENCE_S).low_watermark == 100
    admin.create_topics([NewTopic("x.1", 1, 1)])["x.1"].result(PATIENCE_S)
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_EXCEPTION"):
        admin.create_topics([NewTopic("x_1", 1, 1)])["x_1"].result(PATIENCE_S)
    consumer = reader(address)
    with contextlib.closing(consumer):
        assert consumer.get_watermark_offsets(first, timeout=PATIENCE_S) == (100, len(VALUES))
    admin.delete_topics(["made"])["made"].result(PATIENCE_S)
    assert "made" not in admin.list_topics(timeout=PATIENCE_S).topics


async def test_an_admin_client_creates_trims_and_deletes(broker):
    await run(administer, broker.address)


async def test_a_consumer_on_the_brokers_own_loop_waits_for_records(broker):
    broker.node.topics.create("t")
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address)
    consumer.assign([TopicPartition("t", 0)])
    async with consumer:
        await consumer.seek_to_beginning()
        waiting = asyncio.ensure_future(consumer.getone())
        async with AIOKafkaProducer(bootstrap_servers=broker.address, acks="all") as producer:
            await producer.send_and_wait("t", b"late", partition=0)
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).value == b"late"


async def test_a_consumer_reads_through_a_deletion_of_its_topic(broker):
    """The client is told, not left waiting: it reports the error and goes on when the topic is there again."""
    topic = broker.node.topics.create("t")
    consumer = reader(broker.address, **{"fetch.wait.max.ms": 10_000})
    with contextlib.closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        polling = asyncio.ensure_future(asyncio.to_thread(consumer.poll, PATIENCE_S))
        while not broker.node.fetch.pending:  # noqa: ASYNC110 - the client is not ours
            await asyncio.sleep(0.01)
        broker.node.controller.delete(topic)
        assert broker.node.fetch.pending == 0
        await run(produce_confluent, broker.address, "t", "none")
        message = await polling
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            message = await asyncio.to_thread(consumer.poll, PATIENCE_S)
        assert message.value() == VALUES[0]


async def test_what_is_stored_is_what_the_client_sent(broker):
    await run(produce_confluent, broker.address, "t", "none")
    views = broker.node.topics.partition("t", 0).log.read(0, len(VALUES), 1 << 20, at_least_one=False)
    assert [read.value for read in records_in(b"".join(views))] == VALUES
    assert len(batch(*VALUES)) <= 1 << 20

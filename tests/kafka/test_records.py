"""Batches that the fixture writes and reads, judged by kio and by every codec of the clients."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from purgatory_async.kafka.batches import check_batch, read_batches
from purgatory_async.kafka.codecs import CODECS
from purgatory_async.kafka.testing.records import read_records, write_batch
from tests.kafka.made_batches import COMPRESSED, batch, compressed

VALUES = [b"value %d " % number + b"x" * 50 for number in range(100)]
SOME = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), SOME), max_size=3)


@given(st.lists(SOME, min_size=1, max_size=5), SOME, HEADERS, st.integers(0, 4_000_000_000_000))
def test_kio_reads_what_is_written_and_so_do_we(values, key, headers, timestamp_ms):
    written = write_batch(values, key=key, headers=headers, timestamp_ms=timestamp_ms)
    (batch,) = read_batches(written)
    check_batch(batch, written)  # as the broker does with a producer's
    judged, size = read_batch(written, 0)
    assert size == len(written)
    ours = list(read_records(3, written))
    assert [(each.offset, each.key, each.value) for each in ours] == [
        (each.offset, each.key, each.value) for each in judged.records
    ]
    assert [record.value for record in ours] == values
    for record in ours:
        assert (record.partition, record.timestamp_ms) == (3, timestamp_ms)
        assert record.headers == tuple(headers)


@pytest.mark.parametrize(("codec", "compress"), COMPRESSED.values(), ids=COMPRESSED)
def test_records_of_every_codec_are_read(codec, compress):
    plain = write_batch([b"a" * 300, b"b"], key=b"k", headers=(), timestamp_ms=5)
    made = compressed(plain, codec, compress)
    assert list(read_records(0, made)) == list(read_records(0, plain))


def test_records_with_append_time_have_the_greatest_time():
    made = batch(b"a", b"b", at_ms=[5, 3], attributes=8)
    assert [record.timestamp_ms for record in read_records(0, made)] == [5, 5]


def write_confluent(address: str, codec: str) -> None:
    """One batch by librdkafka."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    options = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 50}
    producer = confluent_kafka.Producer(options)
    for value in VALUES:
        producer.produce("t", value, key=b"k", headers=[("h", b"x")])
    assert producer.flush(30) == 0


@pytest.mark.slow
@pytest.mark.asyncio(loop_factories=["asyncio"])
@pytest.mark.parametrize("codec", CODECS)
async def test_what_real_clients_compressed_is_read(kafka_broker, codec):
    aiokafka = pytest.importorskip("aiokafka")
    await asyncio.to_thread(write_confluent, kafka_broker.address, codec)
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=kafka_broker.address, compression_type=None if codec == "none" else codec
    )
    async with producer:
        for value in VALUES:
            await producer.send("t", value, key=b"k", headers=[("h", b"x")])
        await producer.flush()
    records = kafka_broker.records("t")
    assert [record.value for record in records] == VALUES * 2
    assert {(record.key, record.headers) for record in records} == {(b"k", (("h", b"x"),))}
    partition = kafka_broker.node.topics.partition("t", 0)
    assert (partition.log.size_bytes < sum(map(len, VALUES))) == (codec != "none")

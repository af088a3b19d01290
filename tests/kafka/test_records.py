"""Batches that the fixture writes and reads, judged by kio and by every codec of the clients."""

import asyncio
import gzip
import struct
import sys

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from purgatory_async.kafka.batches import HEADER_BYTES, check_batch, read_batches
from purgatory_async.kafka.testing.codecs import CODECS, decompress
from purgatory_async.kafka.testing.records import read_records, write_batch

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


def in_blocks(data: bytes) -> bytes:
    """As Java's snappy writes it."""
    parts = [cramjam.snappy.compress_raw(data[at : at + 100]) for at in range(0, len(data), 100)]
    return (
        b"\x82SNAPPY\0"
        + struct.pack(">ii", 1, 1)
        + b"".join(struct.pack(">i", len(part)) + bytes(part) for part in parts)
    )


COMPRESSED = {
    "none": (0, lambda data: data),
    "gzip": (1, gzip.compress),
    "snappy": (2, cramjam.snappy.compress_raw),
    "snappy in blocks": (2, in_blocks),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, cramjam.zstd.compress),
}


@pytest.mark.parametrize(("codec", "compress"), COMPRESSED.values(), ids=COMPRESSED)
def test_records_of_every_codec_are_read(codec, compress):
    plain = write_batch([b"a" * 300, b"b"], key=b"k", headers=(), timestamp_ms=5)
    packed = bytes(compress(plain[HEADER_BYTES:]))
    made = bytearray(plain[:HEADER_BYTES] + packed)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, codec)
    assert list(read_records(0, bytes(made))) == list(read_records(0, plain))


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_a_missing_codec_says_what_to_install(monkeypatch, codec):
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(ModuleNotFoundError, match=f"{CODECS[codec]} .*pip install cramjam"):
        decompress(codec, b"")


def test_an_unknown_codec_is_refused_with_its_number():
    with pytest.raises(ValueError, match="0 to 4, got 7"):
        decompress(7, b"")


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

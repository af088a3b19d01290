"""Requests as no client sends them: each costs its connection, is logged once, and leaves nothing behind."""

import asyncio
import logging
import random
import tracemalloc
from struct import pack

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader

from purgatory_async.kafka import Broker, wire
from purgatory_async.kafka.arrays import MAX_ENTRIES, check_arrays
from purgatory_async.kafka.errors import MalformedRequestError
from tests.kafka import hostile, protocol
from tests.kafka.hostile import OFFERED
from tests.kafka.made_batches import batch
from tests.kafka.plain_client import PlainClient
from tests.kafka.protocol import API_VERSIONS, FETCH, METADATA, PRODUCE
from tests.kafka.socketless import fetched
from tests.kafka.test_frames import made

DESCRIBE_GROUPS = 15
COMPACT_LENGTHS = {"2^31-2": b"\xff\xff\xff\xff\x07", "2^32-2": b"\xff\xff\xff\xff\x0f", "null": b"\0"}
LENGTHS = {"2^31-1": b"\x7f\xff\xff\xff", "-2": b"\xff\xff\xff\xfe", "null": b"\xff\xff\xff\xff"}


def read(frame: bytes):
    return wire.read_body(wire.read_header(frame), frame)


@pytest.mark.parametrize(("key", "version"), OFFERED, ids=str)
def test_a_request_is_stepped_over_as_kio_reads_it(key, version):
    schema, rng = load_request_schema(key, version), random.Random(key * 100 + version)
    for _ in range(20):
        frame = hostile.valid_frame(key, version, rng)
        _, at = entity_reader(schema.__header_schema__)(frame, 0)
        _, size = entity_reader(schema)(frame, at)
        assert check_arrays(schema, frame, at) == at + size == len(frame)


@pytest.mark.parametrize("length", COMPACT_LENGTHS.values(), ids=COMPACT_LENGTHS)
def test_a_compact_array_longer_than_its_frame_is_refused(length):
    """Otherwise kio reserves eight bytes an entry, and ends the process if there is no such memory."""
    with pytest.raises(MalformedRequestError, match="groups must have 0 to 10 entries"):
        read(pack(">hhih", DESCRIBE_GROUPS, 5, 1, -1) + b"\0" + length + bytes(10))


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_an_array_longer_than_its_frame_is_refused(length):
    with pytest.raises(MalformedRequestError, match="groups must have 0 to 10 entries"):
        read(pack(">hhih", DESCRIBE_GROUPS, 0, 1, -1) + length + bytes(10))


def test_more_entries_than_the_bound_are_refused_unread():
    names = (MAX_ENTRIES + 1,) * 2
    with pytest.raises(MalformedRequestError, match=f"at most {MAX_ENTRIES} entries, got {names[0]}"):
        read(pack(">hhihi", DESCRIBE_GROUPS, 0, 1, -1, names[0]) + bytes(2 * names[1]))


def test_a_null_array_behind_records_appends_none_of_them():
    """Otherwise the first topic would be appended to, and the second one raise."""
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"a")}]}]
    frame = protocol.request_frame(PRODUCE, 7, acks=-1, timeout=1, topic_data=[*topics, {"name": "u"}])
    with pytest.raises(MalformedRequestError, match="partition_data must have 0 to 0 entries, got -1"):
        read(frame[:-4] + pack(">i", -1))


def test_a_frames_length_alone_takes_no_memory():
    scratch = memoryview(bytearray(1 << 10))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        reader = made(scratch, 1 << 30)
        scratch[:4] = pack(">i", 1 << 30)
        reader.received(4)
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 18
    finally:
        tracemalloc.stop()


def test_a_long_frame_in_small_parts_comes_whole():
    scratch, frame = memoryview(bytearray(1 << 16)), random.Random(1).randbytes(3_000_000)
    reader, sent = made(scratch, 1 << 30), pack(">i", len(frame)) + frame
    at = 0
    while at < len(sent):
        buffer = reader.buffer()
        count = min(len(buffer), 40_000, len(sent) - at)
        buffer[:count] = sent[at : at + count]
        reader.received(count)
        at += count
    assert bytes(reader.take()) == frame


async def sent_alone(broker: Broker, frame: bytes) -> None:
    """Send one frame on a connection of its own, and wait until the broker has closed it."""
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    try:
        writer.write(protocol.with_length(frame))
        writer.write_eof()
        await reader.read()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


async def attacked(broker: Broker, neighbour: PlainClient, caplog, *, seed: int, rounds: int) -> None:
    """Send made-up frames, each beside a neighbour that asks something."""
    broker.node.topics.create("t", [(0,), (0,)])
    for frame in hostile.frames(seed, rounds):
        caplog.clear()
        await sent_alone(broker, frame)
        await neighbour.ask(API_VERSIONS, 3)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) <= 1, frame.hex()
        assert not any("failed" in line for line in lines), frame.hex()
    node = broker.node
    while len(broker._connections) > 1:  # noqa: ASYNC110 - what it asks has no event
        await asyncio.sleep(0)
    for purgatory in (node.produce, node.fetch, node.delete_records, node.rebalance):
        assert (purgatory.pending, purgatory.keys) == (0, 0), purgatory
    members = sum(len(node.groups.members(group.id)) for group in node.groups)
    groups = sum(1 for _ in node.groups)
    assert (
        node.timer.pending <= members + groups + 1 + broker.connections
    )  # sessions, a sweep of groups, idle times


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 1), *(pytest.param(seed, 40, marks=pytest.mark.slow) for seed in range(2, 5))]
)
async def test_made_up_requests_leave_nothing_behind(caplog, seed, rounds):
    with caplog.at_level(logging.WARNING):
        async with Broker(rebalance_delay=0, max_partitions=100) as broker, PlainClient(broker) as neighbour:
            await attacked(broker, neighbour, caplog, seed=seed, rounds=rounds)


@pytest.mark.asyncio
@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1])
async def test_a_frames_length_out_of_bounds_is_logged_once(caplog, length):
    with caplog.at_level(logging.WARNING):
        async with Broker() as broker, PlainClient(broker) as client, PlainClient(broker) as other:
            broker.node.topics.create("t")
            client.send(FETCH, 12, **fetched("t", 0, max_wait=60_000))  # is held, and leaves
            client.send_bytes(pack(">i", length) * 3)
            assert await client.closed()
            await other.ask(API_VERSIONS, 3)
            assert (broker.node.fetch.pending, broker.node.timer.pending) == (0, broker.connections)
    assert [record.getMessage().endswith(f"bytes, got {length}") for record in caplog.records] == [True]


@pytest.mark.asyncio
async def test_a_refused_client_that_reads_nothing_is_dropped(caplog):
    """Closing would wait until it has taken its answers."""
    async with Broker() as broker, PlainClient(broker) as client, PlainClient(broker) as other:
        broker.node.topics.create("t", [(0,)] * 5_000)  # so that answers are long
        frame = protocol.request_frame(METADATA, 9, topics=[{"name": "t"}])
        client._reader._transport.pause_reading()
        client.send_bytes(protocol.with_length(frame) * 100)
        async with asyncio.timeout(60):
            while not any(connection._paused for connection in broker._connections):
                await other.ask(API_VERSIONS, 3)
            client.send_bytes(pack(">i", -1))
            while len(broker._connections) > 1:
                await other.ask(API_VERSIONS, 3)
        assert "bytes, got -1" in caplog.text

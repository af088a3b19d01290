"""Connections on real sockets: order, held requests, clients that go, and bytes that are no request."""

import asyncio
import logging

import pytest

from purgatory_async.kafka import Broker
from purgatory_async.kafka.errors import ErrorCode
from tests.kafka import protocol
from tests.kafka.made_batches import batch, records_in
from tests.kafka.plain_client import PlainClient, until
from tests.kafka.protocol import API_VERSIONS, FETCH, METADATA, PRODUCE
from tests.kafka.socketless import fetched, produced

pytestmark = pytest.mark.asyncio

LONG_MS = 60_000


async def test_responses_come_in_the_order_of_requests():
    async with Broker() as broker, PlainClient(broker) as client:
        for number in range(50):
            client.send(*((API_VERSIONS, 3) if number % 2 else (METADATA, 9)), correlation_id=number)
        assert [(await client.response())[0] for _ in range(50)] == list(range(50))


async def test_a_held_fetch_holds_what_follows_it():
    async with Broker() as broker, PlainClient(broker) as client, PlainClient(broker) as other:
        broker.node.topics.create("t")
        client.send(FETCH, 12, correlation_id=1, **fetched("t", 0, max_wait=LONG_MS))
        client.send(METADATA, 9, correlation_id=2)
        await until(lambda: broker.node.fetch.pending)
        await other.ask(METADATA, 9)  # other connections go on
        assert broker.node.fetch.pending == 1
        await other.ask(PRODUCE, 9, **produced("t", batch(b"a")))
        (first, fetch), (second, _) = await client.response(), await client.response()
        assert (first, second) == (1, 2)
        assert [read.value for read in records_in(fetch.responses[0].partitions[0].records)] == [b"a"]


async def test_a_client_that_goes_takes_its_held_request_along():
    async with Broker() as broker:
        broker.node.topics.create("t")
        async with PlainClient(broker) as client:
            client.send(FETCH, 12, **fetched("t", 0, max_wait=LONG_MS))
            client.send(PRODUCE, 9, correlation_id=2, **produced("t", batch(b"dropped")))
            await until(lambda: broker.node.fetch.pending)
        await until(lambda: not broker.node.fetch.pending)
        assert (broker.node.fetch.keys, broker.node.timer.pending) == (0, 0)
        assert broker.node.topics.partition("t", 0).log.end == 0


async def test_closing_the_broker_drops_held_requests():
    async with Broker() as broker, PlainClient(broker) as client:
        broker.node.topics.create("t")
        client.send(FETCH, 12, **fetched("t", 0, max_wait=LONG_MS))
        await until(lambda: broker.node.fetch.pending)
        await broker.__aexit__(None, None, None)
        assert await client.closed()
        assert broker.node.fetch.pending == 0


async def test_acks_0_sends_no_response():
    async with Broker() as broker, PlainClient(broker) as client:
        broker.node.topics.create("t")
        client.send(PRODUCE, 9, correlation_id=1, **produced("t", batch(b"a"), acks=0))
        client.send(API_VERSIONS, 0, correlation_id=2)
        assert (await client.response())[0] == 2
        assert broker.node.topics.partition("t", 0).log.end == 1


async def test_a_newer_api_versions_is_answered_in_the_oldest_layout():
    async with Broker() as broker, PlainClient(broker) as client:
        for version in (5, 99):
            frame = bytearray(protocol.request_frame(API_VERSIONS, 4, 77))
            frame[2:4] = version.to_bytes(2, "big")
            client.send_frame(bytes(frame))
            correlation_id, answer = protocol.response(API_VERSIONS, 0, await client.frame())
            assert (correlation_id, answer.error_code) == (77, ErrorCode.unsupported_version)
            assert API_VERSIONS in {api.api_key for api in answer.api_keys}
        assert (await client.ask(API_VERSIONS, 3)).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "at least 8 bytes, got 0"),
        (b"GET / HTTP/1.1", "must have a version"),
        (protocol.request_frame(METADATA, 12)[:-2], "must follow its schema"),
        (b"\0\0\0\2" + bytes(30), "api 0 must have a version in 3 to 9, got 2"),
        (b"\0\1\0\x0d" + bytes(30), "api 1 must have a version in 4 to 12, got 13"),
    ],
    ids=["empty", "HTTP", "cut", "produce 2", "fetch 13"],
)
async def test_what_is_no_request_closes_its_connection_alone(frame, reason, caplog):
    async with Broker() as broker, PlainClient(broker) as client, PlainClient(broker) as other:
        await other.ask(API_VERSIONS, 3)
        with caplog.at_level(logging.WARNING):
            client.send_frame(frame)
            assert await client.closed()
        assert reason in caplog.text
        await other.ask(API_VERSIONS, 3)


async def test_bytes_behind_a_request_are_ignored():
    """A client in use, librdkafka 2.16, sends three behind Metadata 12."""
    async with Broker() as broker, PlainClient(broker) as client:
        client.send_frame(protocol.request_frame(METADATA, 12, 5) + b"xyz")
        correlation_id, answer = protocol.response(METADATA, 12, await client.frame())
        assert (correlation_id, len(answer.brokers)) == (5, 1)


async def test_a_frame_above_the_bound_closes_its_connection(caplog):
    async with Broker(max_frame_bytes=1_000) as broker, PlainClient(broker) as client:
        client.send_bytes((1_001).to_bytes(4, "big"))
        assert await client.closed()
        assert "0 to 1000 bytes, got 1001" in caplog.text


async def test_a_connection_above_the_bound_is_refused():
    async with Broker(max_connections=1) as broker, PlainClient(broker) as client:
        await client.ask(API_VERSIONS, 3)
        async with PlainClient(broker) as other:
            assert await other.closed()
        await client.ask(API_VERSIONS, 3)


async def test_records_larger_than_any_buffer_come_back_whole():
    value = bytes(range(256)) * 12_000
    async with Broker(max_batch_bytes=4 << 20) as broker, PlainClient(broker) as client:
        broker.node.topics.create("t")
        for _ in range(3):
            answer = await client.ask(PRODUCE, 9, **produced("t", batch(value)))
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
        answer = await client.ask(
            FETCH, 12, **fetched("t", 0, partition_max_bytes=20 << 20, max_bytes=20 << 20)
        )
        read = records_in(answer.responses[0].partitions[0].records)
        assert [record.value == value for record in read] == [True] * 3


async def test_a_client_that_does_not_read_is_not_served_further():
    async with Broker(max_batch_bytes=4 << 20) as broker, PlainClient(broker) as client:
        broker.node.topics.create("t")
        await client.ask(PRODUCE, 9, **produced("t", batch(bytes(3 << 20))))
        served = 0
        large = fetched("t", 0, partition_max_bytes=4 << 20, max_bytes=4 << 20)
        for number in range(30):
            client.send(FETCH, 12, correlation_id=number, **large)
        client.send(PRODUCE, 9, correlation_id=99, **produced("t", batch(b"last")))
        for _ in range(200):
            await asyncio.sleep(0)
        assert broker.node.topics.partition("t", 0).log.end == 1, "a produce behind unread answers was served"
        while (await client.response())[0] != 99:
            served += 1
        assert (served, broker.node.topics.partition("t", 0).log.end) == (30, 2)


async def test_a_handler_that_fails_closes_its_connection(caplog, monkeypatch):
    async with Broker() as broker, PlainClient(broker) as client:
        monkeypatch.setattr(broker.node, "cluster_id", object())
        client.send(METADATA, 9)
        assert await client.closed()
        assert "request of api 3 version 9 failed" in caplog.text


async def test_a_broker_on_all_interfaces_needs_an_advertised_host():
    with pytest.raises(ValueError, match="advertised_host must be given with host"):
        Broker(host="0.0.0.0")
    async with Broker(host="0.0.0.0", advertised_host="localhost") as broker:
        assert broker.address == f"localhost:{broker.port}"


@pytest.mark.parametrize("setting", [{"max_bytes": 0}, {"partitions": -1}, {"rebalance_delay": -0.1}])
async def test_a_setting_out_of_bounds_is_refused_by_name(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"{name} must be at least [01], got {value}"):
        Broker(**setting)


async def test_a_broker_that_cannot_listen_leaves_nothing_behind():
    async with Broker() as broker:
        second = Broker(port=broker.port)
        with pytest.raises(OSError, match="in use"):
            await second.__aenter__()
    assert all(purgatory.closed for purgatory in second.node.purgatories)

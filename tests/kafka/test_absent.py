"""What the broker lacks by design: refused at once, and logged once, with what to do without it."""

import asyncio
import contextlib
import logging
import time

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaProducer

from purgatory_async.kafka import Broker
from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.requests import APIS
from tests.kafka.made_batches import batch
from tests.kafka.plain_client import PlainClient
from tests.kafka.protocol import INIT_PRODUCER_ID, PRODUCE
from tests.kafka.socketless import produced

pytestmark = pytest.mark.asyncio

FIND_COORDINATOR, SASL_HANDSHAKE, CONSUMER_HEARTBEAT, SHARE_HEARTBEAT = 10, 17, 68, 76
TRANSACTION, SHARE_GROUP = 1, 2
TRANSACTIONAL = 0x10
PATIENCE_S = 60
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)

REFUSED = {
    "FindCoordinator": (FIND_COORDINATOR, 2, {"key": "x", "key_type": TRANSACTION}, 53, Absence.TRANSACTIONS),
    "FindCoordinator of several": (
        *(FIND_COORDINATOR, 4, {"coordinator_keys": ["x"], "key_type": TRANSACTION}),
        *(53, Absence.TRANSACTIONS),
    ),
    "FindCoordinator of a share group": (
        *(FIND_COORDINATOR, 4, {"coordinator_keys": ["x"], "key_type": SHARE_GROUP}),
        *(42, Absence.SHARE_GROUPS),
    ),
    "InitProducerId": (INIT_PRODUCER_ID, 4, {"transactional_id": "x"}, 35, Absence.TRANSACTIONS),
    "Produce": (
        *(PRODUCE, 9, {**produced("t", batch(b"v")), "transactional_id": "x"}),
        *(35, Absence.TRANSACTIONS),
    ),
    "Produce of a batch": (
        *(PRODUCE, 9, produced("t", batch(b"v", attributes=TRANSACTIONAL))),
        *(87, Absence.TRANSACTIONS),
    ),
    "ConsumerGroupHeartbeat": (CONSUMER_HEARTBEAT, 1, {"group_id": "g"}, 35, Absence.NEW_GROUPS),
    "ShareGroupHeartbeat": (SHARE_HEARTBEAT, 1, {"group_id": "g"}, 35, Absence.SHARE_GROUPS),
    "SaslHandshake": (SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, 33, Absence.SASL),
}


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("asked", REFUSED)
async def test_it_is_refused_each_time_and_logged_once(caplog, asked):
    key, version, values, code, absence = REFUSED[asked]
    async with Broker() as broker, PlainClient(broker) as client:
        broker.node.topics.create("t")
        for _ in range(2):
            assert repr(ErrorCode(code)) in repr(await client.ask(key, version, **values))
    (line,) = warnings(caplog)
    assert line.startswith(f"{absence} (asked for by client 'tester' at 127.0.0.1")


@pytest.mark.parametrize("key", [24, 26, 29, 36, 50, 69, 78, 88])
async def test_an_api_it_lacks_by_design_closes_and_is_logged_once(caplog, key):
    async with Broker() as broker:
        for _ in range(2):
            async with PlainClient(broker) as client:
                client.send_frame(key.to_bytes(2, "big") + bytes(20))
                assert await client.closed()
    (line,) = warnings(caplog)
    assert line.startswith(f"{Absence.of_api(key)} (asked for by a client at 127.0.0.1")


@pytest.mark.parametrize(
    ("start", "absence"),
    [(CLIENT_HELLO, Absence.TLS), (b"GET / HTTP/1.1\r\n\r\n", Absence.HTTP)],
    ids=["TLS", "HTTP"],
)
async def test_bytes_of_another_protocol_are_named_once(caplog, start, absence):
    async with Broker() as broker:
        for _ in range(2):
            async with PlainClient(broker) as client:
                client.send_bytes(start)
                assert await client.closed()
    (line,) = warnings(caplog)
    assert line.startswith(str(absence))


def begin_confluent(address):
    confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": "x"}).init_transactions(
        PATIENCE_S
    )


def begin_kafka_python(address):
    with contextlib.closing(kafka.KafkaProducer(bootstrap_servers=address, transactional_id="x")) as producer:
        producer.init_transactions()


def begin_aiokafka(address):
    async def begin():
        producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id="x")
        try:
            await producer.start()
        finally:
            await producer.stop()

    asyncio.run(begin())


def read_in_a_new_group(address):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "g", "group.protocol": "consumer"}
    )
    with contextlib.closing(consumer):
        consumer.subscribe(["t"])
        if (message := consumer.poll(PATIENCE_S)) is not None:
            raise confluent_kafka.KafkaException(message.error())


def read_in_a_share_group(address):
    with contextlib.closing(
        confluent_kafka.ShareConsumer({"bootstrap.servers": address, "group.id": "g"})
    ) as consumer:
        consumer.subscribe(["t"])
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            consumer.poll(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "error", "absence"),
    [
        (begin_confluent, "FATAL.*no transactions", Absence.TRANSACTIONS),
        (begin_kafka_python, "Authorization", Absence.TRANSACTIONS),
        (begin_aiokafka, "Authorization", Absence.TRANSACTIONS),
        (read_in_a_new_group, "_FATAL.*ConsumerGroupHeartbeat fatal error", Absence.NEW_GROUPS),
        (read_in_a_share_group, "FATAL.*ShareGroupHeartbeat fatal error", Absence.SHARE_GROUPS),
    ],
)
async def test_a_client_fails_before_its_patience_ends(caplog, begin, error, absence):
    async with Broker() as broker:
        broker.node.topics.create("t")
        with pytest.raises(Exception, match=error) as caught:  # each client has errors of its own
            await asyncio.to_thread(begin, broker.address)
    assert "timed out" not in str(caught.value).lower()
    assert [line for line in warnings(caplog) if line.startswith(str(absence))]


async def test_no_api_is_both_served_and_absent():
    served = {key for key in APIS if Absence.of_api(key) is not None}
    assert served == {CONSUMER_HEARTBEAT, SHARE_HEARTBEAT}

"""Checks of confluent-kafka, so of librdkafka."""

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.kafka.clients.expect import CODECS, DELETED, PATIENCE_S, PREPARE_S, VALUES, expect

__all__ = ["CHECKS", "prepare"]


def _admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def _create(address: str, topic: str, patience_s: float = PATIENCE_S) -> None:
    admin = _admin(address)  # kept: its requests end with it
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(patience_s)


def prepare(address: str, topic: str) -> None:
    """Create a topic. A broker that cannot makes it when a producer asks for it."""
    try:
        _create(address, topic, PREPARE_S)
    except (KafkaException, TimeoutError):
        _admin(address).list_topics(topic, PATIENCE_S)


def _produce(address: str, topic: str, **configuration: Any) -> None:
    prepare(address, topic)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, **configuration})
    failed: list[Any] = []
    for value in VALUES:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.append(error))
    expect("messages left", producer.flush(PATIENCE_S), 0)
    expect("delivery errors", [error for error in failed if error is not None], [])


def _consumer(address: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
    )


def _take(consumer: Consumer, number: int) -> list[bytes]:
    values: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    while len(values) < number and time.monotonic() < end:
        for message in consumer.consume(number - len(values), 0.1):
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value() or b"")
    return values


def _read(address: str, topic: str) -> None:
    with contextlib.closing(_consumer(address, "reader")) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        expect("values", _take(consumer, len(VALUES)), VALUES)


def _produced(configuration: dict[str, Any], address: str, topic: str) -> None:
    _produce(address, topic, **configuration)
    _read(address, topic)


def _rebalance(address: str, topic: str) -> None:
    """Two members share a topic's partitions; when one leaves, the other has all."""
    prepare(address, topic)
    with contextlib.closing(_consumer(address, topic)) as stays:
        stays.subscribe([topic])
        with contextlib.closing(_consumer(address, topic)) as leaves:
            leaves.subscribe([topic])
            _until(lambda: bool(stays.assignment()) and bool(leaves.assignment()), stays, leaves)
            share = len(stays.assignment())
        _until(lambda: len(stays.assignment()) > share, stays)


def _until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    end = time.monotonic() + 2 * PATIENCE_S
    while not condition():
        expect("rebalance", time.monotonic() < end, wanted=True)
        for consumer in consumers:
            consumer.poll(0.05)


def _offsets(address: str, topic: str) -> None:
    _produce(address, topic)
    with contextlib.closing(_consumer(address, topic)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    with contextlib.closing(_consumer(address, topic)) as consumer:
        (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        expect("committed offset", committed.offset, 7)
        ends = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        expect("watermarks", ends, (0, len(VALUES)))


def _delete_records(address: str, topic: str) -> None:
    _produce(address, topic)
    admin = _admin(address)
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, DELETED)]).values()
    expect("low watermark", deleted.result(PATIENCE_S).low_watermark, DELETED)


def _administer(address: str, topic: str) -> None:
    _create(address, topic)
    admin = _admin(address)
    expect("partitions", len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions), 2)
    try:
        _create(address, topic)
    except KafkaException as error:
        expect("second creation", error.args[0].name(), "TOPIC_ALREADY_EXISTS")
    else:
        raise AssertionError(f"creating {topic} again must fail, got no error")
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    end = time.monotonic() + PATIENCE_S
    while topic in admin.list_topics(timeout=PATIENCE_S).topics:
        expect("deletion", time.monotonic() < end, wanted=True)
        time.sleep(0.05)


CHECKS: Final[Mapping[str, Callable[[str, str], None]]] = {
    "acks=0": partial(_produced, {"acks": 0}),
    "acks=1": partial(_produced, {"acks": 1}),
    "acks=all": partial(_produced, {"acks": "all"}),
    **{codec: partial(_produced, {"compression.type": codec}) for codec in CODECS},
    "idempotent": partial(_produced, {"enable.idempotence": True}),
    "rebalance": _rebalance,
    "offsets": _offsets,
    "delete records": _delete_records,
    "admin": _administer,
}

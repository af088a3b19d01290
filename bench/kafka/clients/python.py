"""Checks of kafka-python."""

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from bench.kafka.clients.confluent import prepare
from bench.kafka.clients.expect import CODECS, DELETED, PATIENCE_S, VALUES, expect

__all__ = ["CHECKS"]


def _create(address: str, topic: str) -> None:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])


def _produced(configuration: dict[str, Any], address: str, topic: str) -> None:
    prepare(address, topic)
    with contextlib.closing(
        KafkaProducer(
            bootstrap_servers=address, linger_ms=20, **{"enable_idempotence": False, **configuration}
        )
    ) as producer:
        for sent in [producer.send(topic, value, partition=0) for value in VALUES]:
            sent.get(PATIENCE_S)
    with contextlib.closing(_consumer(address)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        got = [message.value for _, message in zip(VALUES, consumer, strict=False)]
    expect("values", got, VALUES)


def _consumer(address: str, **configuration: Any) -> Any:
    return KafkaConsumer(
        bootstrap_servers=address, consumer_timeout_ms=int(PATIENCE_S * 1_000), **configuration
    )


def _grouped(address: str, topic: str) -> None:
    """A member reads, commits and goes; the next one goes on there."""
    _produced({}, address, topic)
    for first in (0, 100):
        with contextlib.closing(
            _consumer(address, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)
        ) as consumer:
            consumer.subscribe([topic])
            got = [message.value for _, message in zip(range(100), consumer, strict=False)]
            expect("values", got, VALUES[first : first + 100])
            consumer.commit()


def _rebalance(address: str, topic: str) -> None:
    """Two members share a topic's partitions; when one leaves, the other has all."""
    prepare(address, topic)
    with contextlib.closing(_member(address, topic)) as stays:
        with contextlib.closing(_member(address, topic)) as leaves:
            _until(lambda: bool(stays.assignment()) and bool(leaves.assignment()), stays, leaves)
            share = len(stays.assignment())
        _until(lambda: len(stays.assignment()) > share, stays)


def _member(address: str, topic: str) -> Any:
    consumer = _consumer(address, group_id=topic, session_timeout_ms=30_000, heartbeat_interval_ms=200)
    consumer.subscribe([topic])
    # Reads the metadata first: if poll's time ends while a leader joins again for new ones, 3.0.12 forgets the join.
    consumer.topics()
    return consumer


def _until(condition: Callable[[], bool], *consumers: Any) -> None:
    end = time.monotonic() + 2 * PATIENCE_S
    while not condition():
        expect("rebalance", time.monotonic() < end, wanted=True)
        for consumer in consumers:
            consumer.poll(1_000 // len(consumers))  # returns once it has joined


def _delete_records(address: str, topic: str) -> None:
    _produced({}, address, topic)
    partition = TopicPartition(topic, 0)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.delete_records({partition: DELETED})
    with contextlib.closing(_consumer(address)) as consumer:
        expect("low watermark", consumer.beginning_offsets([partition])[partition], DELETED)


def _administer(address: str, topic: str) -> None:
    _create(address, topic)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.delete_topics([topic])


CHECKS: Final[Mapping[str, Callable[[str, str], None]]] = {
    **{f"acks={acks}": partial(_produced, {"acks": acks}) for acks in (0, 1, "all")},
    **{codec: partial(_produced, {"compression_type": codec}) for codec in CODECS},
    "idempotent": partial(_produced, {"enable_idempotence": True}),
    "rebalance": _rebalance,
    "offsets": _grouped,
    "delete records": _delete_records,
    "admin": _administer,
}

"""Checks of aiokafka."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from bench.kafka.clients.confluent import prepare
from bench.kafka.clients.expect import CODECS, DELETED, PATIENCE_S, VALUES, expect

__all__ = ["CHECKS"]


async def _administer(address: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 2, 1)])
        await admin.delete_topics([topic])
    finally:
        await admin.close()


async def _produced(configuration: dict[str, Any], address: str, topic: str) -> None:
    await asyncio.to_thread(prepare, address, topic)
    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=20, **configuration) as producer:
        for sent in [await producer.send(topic, value, partition=0) for value in VALUES]:
            await asyncio.wait_for(sent, PATIENCE_S)
    consumer = AIOKafkaConsumer(bootstrap_servers=address)
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        await consumer.seek_to_beginning()
        expect("values", await _take(consumer, len(VALUES)), VALUES)


async def _take(consumer: Any, number: int) -> list[bytes]:
    return [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in range(number)]


async def _grouped(address: str, topic: str) -> None:
    """A member reads, commits and goes; the next one goes on there."""
    await _produced({}, address, topic)
    for first in (0, 100):
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            expect("values", await _take(consumer, 100), VALUES[first : first + 100])
            await consumer.commit({TopicPartition(topic, 0): first + 100})


async def _rebalance(address: str, topic: str) -> None:
    """Two members share a topic's partitions; when one leaves, the other has all."""
    await asyncio.to_thread(prepare, address, topic)

    def member() -> Any:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=topic,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=1_000,  # one that has joined before the topic was there looks again
        )

    async with member() as stays:
        async with member() as leaves:
            await _until(lambda: bool(stays.assignment()) and bool(leaves.assignment()))
            share = len(stays.assignment())
        await _until(lambda: len(stays.assignment()) > share)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(2 * PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.05)


async def _delete_records(address: str, topic: str) -> None:
    await _produced({}, address, topic)
    partition = TopicPartition(topic, 0)
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.delete_records({partition: RecordsToDelete(before_offset=DELETED)})
    finally:
        await admin.close()
    async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
        first = await asyncio.wait_for(consumer.beginning_offsets([partition]), PATIENCE_S)
        expect("low watermark", first[partition], DELETED)


CHECKS: Final[Mapping[str, Callable[[str, str], Coroutine[Any, Any, None]]]] = {
    **{f"acks={acks}": partial(_produced, {"acks": acks}) for acks in (0, 1, "all")},
    **{codec: partial(_produced, {"compression_type": codec}) for codec in CODECS},
    "idempotent": partial(_produced, {"enable_idempotence": True}),
    "rebalance": _rebalance,
    "offsets": _grouped,
    "delete records": _delete_records,
    "admin": _administer,
}

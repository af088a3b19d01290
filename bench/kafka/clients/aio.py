"""Checks of aiokafka."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from bench.kafka.clients.expect import CODECS, PATIENCE_S, VALUES, expect

__all__ = ["CHECKS"]


async def _administer(address: str, topic: str, *, delete: bool = True) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 2, 1)])
        if delete:
            await admin.delete_topics([topic])
    finally:
        await admin.close()


async def _produced(configuration: dict[str, Any], address: str, topic: str) -> None:
    # A broker that cannot may make it when it is asked for; without a controller the client raises AttributeError.
    with contextlib.suppress(KafkaError, AttributeError):
        await _administer(address, topic, delete=False)
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


CHECKS: Final[Mapping[str, Callable[[str, str], Coroutine[Any, Any, None]]]] = {
    **{f"acks={acks}": partial(_produced, {"acks": acks}) for acks in (0, 1, "all")},
    **{codec: partial(_produced, {"compression_type": codec}) for codec in CODECS},
    "idempotent": partial(_produced, {"enable_idempotence": True}),
    "offsets": _grouped,
    "admin": _administer,
}

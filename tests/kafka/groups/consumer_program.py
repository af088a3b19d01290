"""A consumer in a process of its own: ``CLIENT ADDRESS TOPIC GROUP SESSION_MS [INSTANCE]``.

It prints a JSON line for each assignment and each record, commits after each record, and leaves its group at SIGTERM.
"""

import asyncio
import json
import signal
import sys
from typing import Any

METADATA_MS = 1_000  # after which new partitions are noticed


class Stopped(Exception):  # noqa: N818 - not an error
    """SIGTERM came."""


def stop(*_: object) -> None:
    raise Stopped


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def confluent(address: str, topic: str, group: str, session_ms: int, instance: str | None) -> None:
    from confluent_kafka import Consumer  # noqa: PLC0415 - one client a process

    settings = {
        "bootstrap.servers": address,
        "group.id": group,
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": 100,
        "topic.metadata.refresh.interval.ms": METADATA_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings | ({"group.instance.id": instance} if instance else {}))
    consumer.subscribe(
        [topic], on_assign=lambda _, parts: say(assigned=sorted(part.partition for part in parts))
    )
    try:
        while True:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                consumer.commit(message, asynchronous=False)
                say(value=message.value().decode())
    except Stopped:
        consumer.close()


def kafka_python(address: str, topic: str, group: str, session_ms: int, instance: str | None) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer  # noqa: PLC0415 - one client a process

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked) -> None:
            pass

        def on_partitions_assigned(self, assigned) -> None:
            say(assigned=sorted(part.partition for part in assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        group_instance_id=instance,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=100,
        metadata_max_age_ms=METADATA_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic], listener=Listener())
    try:
        # Not poll(100): if its time ends while a leader joins again for new metadata, 3.0.12 forgets the join.
        for message in consumer:
            consumer.commit()
            say(value=message.value.decode())
    except Stopped:
        consumer.close()


async def aiokafka(address: str, topic: str, group: str, session_ms: int, instance: str | None) -> None:
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - one client a process
    from aiokafka.abc import ConsumerRebalanceListener  # noqa: PLC0415 - one client a process

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked) -> None:
            pass

        def on_partitions_assigned(self, assigned) -> None:
            say(assigned=sorted(part.partition for part in assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        group_instance_id=instance,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=100,
        metadata_max_age_ms=METADATA_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    consuming = asyncio.ensure_future(consume_aiokafka(consumer))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consuming.cancel)
    await asyncio.wait([consuming])
    await consumer.stop()


async def consume_aiokafka(consumer: Any) -> None:
    async for message in consumer:
        await consumer.commit()
        say(value=message.value.decode())


def main() -> None:
    client, address, topic, group, session_ms, *instance = sys.argv[1:]
    arguments = address, topic, group, int(session_ms), instance[0] if instance else None
    if client == "aiokafka":
        asyncio.run(aiokafka(*arguments))
        return
    signal.signal(signal.SIGTERM, stop)
    {"confluent": confluent, "kafka-python": kafka_python}[client](*arguments)


if __name__ == "__main__":
    main()

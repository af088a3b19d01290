"""One producer of librdkafka that sends a record and waits for its acknowledgement."""

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Producer

__all__ = ["PATIENCE_S", "RECORD", "producer", "send", "singles_ms"]

RECORD: Final = b"x" * 100
PATIENCE_S: Final = 60.0


def producer(address: str, **configuration: Any) -> Producer:
    """Make a producer, which prints nothing: what it cannot send is raised."""
    return Producer({"bootstrap.servers": address, "log_level": 0, **configuration})


def send(by: Producer, topic: str) -> None:
    """Send one record to partition 0, and wait for its acknowledgement.

    Raises:
        RuntimeError: It was refused, or not taken within a minute.
    """
    failed: list[object] = []
    by.produce(topic, RECORD, partition=0, on_delivery=lambda error, _: failed.append(error))
    if by.flush(PATIENCE_S) or failed != [None]:
        raise RuntimeError(f"a record must be taken within {PATIENCE_S:.0f} s, got {failed}")


def singles_ms(address: str, topic: str, singles: int, *, acks: str = "all") -> Iterator[tuple[str, float]]:
    """Send records, each when the one before is acknowledged, without lingering.

    Returns:
        The median and the 99th percentile, in milliseconds, by name.
    """
    by = producer(address, acks=acks, **{"linger.ms": 0})
    send(by, topic)  # connects, and makes the topic
    taken_ms = []
    for _ in range(singles):
        begun = time.perf_counter()
        send(by, topic)
        taken_ms.append((time.perf_counter() - begun) * 1e3)
    taken_ms.sort()
    for percent in (50, 99):
        yield f"p{percent}", taken_ms[len(taken_ms) * percent // 100]

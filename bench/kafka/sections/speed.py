"""How fast one client of librdkafka produces and consumes at each broker."""

import contextlib
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, TopicPartition

from bench.kafka.brokers import MOCK, started
from bench.kafka.compared import Figure, compared
from bench.kafka.producing import PATIENCE_S, RECORD, producer, send, singles_ms
from bench.kafka.settings import KafkaSettings
from bench.measure.section import Row, Section

__all__ = ["SECTION"]

QUEUED = 100_000  # records in a producer before it must wait
QUEUES: Mapping[str, Mapping[str, int]] = {
    "consume": {},
    "consume, long queue": {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 1 << 20},
}
"""A consumer's configuration, by the figure's name; as shipped, librdkafka pauses at 100 000 records for a second."""
GOALS = {
    "produce": ">= 200 000",
    "consume": ">= 250 000",
    "one by one, p50": "<= 0.2 ms",
    "one by one, p99": "<= 0.5 ms",
}


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """For each broker, the medians of all rounds."""
    return compared(_measured, settings, GOALS, rounds=settings.rounds)


def _measured(broker: str, settings: KafkaSettings) -> Iterator[Figure]:
    with started(broker) as running:
        address, records = running.address, settings.records
        yield Figure("produce", records / _produce_s(address, records), "1/s")
        if broker != MOCK:  # it has deleted the first records by now
            for name, configuration in QUEUES.items():
                yield Figure(name, records / _consume_s(address, records, configuration), "1/s")
        for percentile, taken_ms in singles_ms(address, "single", settings.singles):
            yield Figure(f"one by one, {percentile}", taken_ms, "ms")


def _produce_s(address: str, records: int) -> float:
    by = producer(address, acks="all", **{"linger.ms": 5, "queue.buffering.max.messages": QUEUED})
    send(by, "warm")  # connects
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    begun = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                by.produce("many", RECORD, partition=0, on_delivery=delivered)
                break
            except BufferError:
                by.poll(0.01)
    left = by.flush(PATIENCE_S)
    if left or failed:
        raise RuntimeError(f"all {records} records must be taken, got {left} unanswered, {failed[:1]}")
    return time.perf_counter() - begun


def _consume_s(address: str, records: int, configuration: Mapping[str, int]) -> float:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False, **configuration}
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition("many", 0, 0)])
        begun, read = time.perf_counter(), 0
        while read < records:
            taken = consumer.consume(min(10_000, records - read), PATIENCE_S)
            if not taken:
                raise RuntimeError(f"{records} records must be read, got {read} within {PATIENCE_S:.0f} s")
            read += len(taken)
        return time.perf_counter() - begun


SECTION = Section(
    name="speed",
    title="One librdkafka client at each broker",
    timed=(
        "Each broker is a process, new for each round; the brokers take turns, and each figure is the median of the "
        "rounds. Produce: records of 100 bytes with acks=all to one partition, from the first to the last "
        "acknowledgement. Consume: the same records, from assigning the partition to the last one, connecting "
        "included; with librdkafka's own settings, and with a queue that holds all. One by one: each record is sent "
        "when the one before is acknowledged, without lingering."
    ),
    lines=lines,
)

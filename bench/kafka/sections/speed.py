"""How fast one client of librdkafka produces and consumes at each broker, and how soon a broker listens."""

import contextlib
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.kafka.brokers import MOCK, OURS, TANSU, missing, started
from bench.kafka.settings import KafkaSettings
from bench.measure.collector import Collector
from bench.measure.line import Line, Skipped
from bench.measure.loops import UVLOOP
from bench.measure.section import Row, Section

__all__ = ["SECTION"]

RECORD = b"x" * 100
PATIENCE_S = 60.0
BROKERS = OURS, MOCK, TANSU
QUEUED = 100_000  # records in a producer before it must wait
GOALS = {
    "produce, 1/s": ">= 200 000",
    "consume, 1/s": ">= 250 000",
    "one by one, p50": "<= 0.2 ms",
    "one by one, p99": "<= 0.5 ms",
    "start to listening": "<= 0.3 s",
}


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """For each broker, the medians of all rounds; the brokers take turns."""
    found: dict[str, dict[str, list[tuple[float, str]]]] = {}
    present = [broker for broker in BROKERS if missing(broker) is None]
    for _ in range(settings.rounds):
        for broker in present:
            for name, figure, unit in _measured(broker, settings):
                found.setdefault(name, {}).setdefault(broker, []).append((figure, unit))
    for name, by_broker in found.items():
        for broker, figures in by_broker.items():
            yield Line(
                name=f"{name}: {broker}",
                loop=UVLOOP,
                collector=Collector.DEFAULT,
                unit=figures[0][1],
                ours=median(figure for figure, _ in figures),
                note=f"goal {GOALS[name]}" if broker == OURS else "",
            )
    for broker in BROKERS:
        if (command := missing(broker)) is not None:
            yield Skipped(f"{broker} left out; run: {command}")


def _measured(broker: str, settings: KafkaSettings) -> Iterator[tuple[str, float, str]]:
    with started(broker) as running:
        yield "start to listening", running.started_s, "s"
        yield "produce, 1/s", settings.records / _produce_s(running.address, settings.records), "1/s"
        if broker != MOCK:  # it has deleted the first records by now
            yield "consume, 1/s", settings.records / _consume_s(running.address, settings.records), "1/s"
        singles_ms = sorted(_singles_ms(running.address, settings.singles))
        for percent in (50, 99):
            yield f"one by one, p{percent}", singles_ms[len(singles_ms) * percent // 100], "ms"


def _producer(address: str, **configuration: Any) -> Producer:
    return Producer({"bootstrap.servers": address, "acks": "all", **configuration})


def _produce_s(address: str, records: int) -> float:
    producer = _producer(address, **{"linger.ms": 5, "queue.buffering.max.messages": QUEUED})
    _send(producer, "warm")  # connects, and makes the topic
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    begun = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce("many", RECORD, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(PATIENCE_S)
    if left or failed:
        raise RuntimeError(f"all {records} records must be taken, got {left} unanswered, {failed[:1]}")
    return time.perf_counter() - begun


def _send(producer: Producer, topic: str) -> None:
    failed: list[object] = []
    producer.produce(topic, RECORD, partition=0, on_delivery=lambda error, _: failed.append(error))
    if producer.flush(PATIENCE_S) or failed != [None]:
        raise RuntimeError(f"a record must be taken within {PATIENCE_S:.0f} s, got {failed}")


def _consume_s(address: str, records: int) -> float:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition("many", 0, 0)])
        begun, read = time.perf_counter(), 0
        while read < records:
            taken = consumer.consume(min(10_000, records - read), PATIENCE_S)
            if not taken:
                raise RuntimeError(f"{records} records must be read, got {read} within {PATIENCE_S:.0f} s")
            read += len(taken)
        return time.perf_counter() - begun


def _singles_ms(address: str, singles: int) -> Iterator[float]:
    producer = _producer(address, **{"linger.ms": 0})
    _send(producer, "single")
    for _ in range(singles):
        begun = time.perf_counter()
        _send(producer, "single")
        yield (time.perf_counter() - begun) * 1e3


SECTION = Section(
    name="speed",
    title="One librdkafka client at each broker",
    timed=(
        "Each broker is a process, new for each round; the brokers take turns, and each figure is the median of the "
        "rounds. Start: from starting the process to the first connection it accepts; the mock cluster listens when "
        "it has printed its address. Produce: records of 100 bytes with acks=all to one partition, from the first to "
        "the last acknowledgement. Consume: the same records, from assigning the partition to the last one, connecting "
        "included. One by one: each record is sent when the one before is acknowledged, without lingering."
    ),
    lines=lines,
)

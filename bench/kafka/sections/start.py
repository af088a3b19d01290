"""How soon a broker listens: as a process, and in a test."""

import asyncio
import time
from collections.abc import Iterator

from bench.kafka.brokers import OURS, started
from bench.kafka.compared import Figure, compared
from bench.kafka.settings import KafkaSettings
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section
from purgatory_async.kafka import Broker

__all__ = ["SECTION"]

GOALS = {"process": "<= 300 ms", "in a test": "<= 50 ms"}


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """For each broker, the medians of all rounds."""
    return compared(_measured, settings, GOALS, rounds=settings.rounds)


def _measured(broker: str, settings: KafkaSettings) -> Iterator[Figure]:  # noqa: ARG001 - as every measurement
    with started(broker) as running:
        yield Figure("process", running.started_s * 1e3, "ms")
    if broker == OURS:
        yield Figure("in a test", run_on(UVLOOP, _in_a_test()) * 1e3, "ms")


async def _in_a_test() -> float:
    begun = time.perf_counter()
    async with Broker() as broker:
        _, writer = await asyncio.open_connection(broker.host, broker.port)
        taken_s = time.perf_counter() - begun
        writer.close()
    return taken_s


SECTION = Section(
    name="start",
    title="From starting a broker to the first connection",
    timed=(
        "Process: from starting it to the first connection it accepts; the mock cluster listens when it has printed "
        "its address. Ours runs as where hypothesis is not installed, which kio imports if it is. In a test: the same "
        "for a broker on the test's own loop."
    ),
    lines=lines,
)

"""Many fetches that wait for one record, and what it costs to hold them and to answer them all."""

import asyncio
import time
from collections.abc import Iterator

from bench.kafka import probe
from bench.kafka.brokers import Running, started
from bench.kafka.callers import callers, frame, last_answer_s
from bench.kafka.compared import Figure, compared
from bench.kafka.fetching import FETCH, fetched
from bench.kafka.producing import PATIENCE_S, producer, send
from bench.kafka.settings import KafkaSettings
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section
from bench.service.probe import Probe, Waits
from bench.service.processes import memory_of

__all__ = ["SECTION"]

TOPIC = "held"
SETTLED_S = 2.0
GOALS = {
    "held fetch": "<= 8 KiB",
    "last answered": "<= 0.3 s",
    "longest pass": "<= 20 ms",
}


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """For each broker, the medians of all rounds."""
    return compared(_measured, settings, GOALS, rounds=settings.rounds)


def _measured(broker: str, settings: KafkaSettings) -> Iterator[Figure]:
    with started(broker) as running, Probe(running.port, running.pid, probe.MODULE) as asking:
        kib, answered_s, waits = run_on(UVLOOP, _play(running, asking, settings))
    yield Figure("held fetch", kib, "KiB")
    yield Figure("last answered", answered_s, "s")
    yield Figure("longest pass", waits.loop.worst, "ms")


async def _play(running: Running, asking: Probe, settings: KafkaSettings) -> tuple[float, float, Waits]:
    held = settings.held
    by = producer(running.address, **{"linger.ms": 0})
    await asyncio.to_thread(send, by, TOPIC)  # makes the topic
    before = memory_of(running.pid).resident_bytes
    async with callers(running.address, held) as waiting:
        request = frame(*FETCH, **fetched(TOPIC, 1, max_wait_ms=1_000 * settings.max_wait_s))
        answers = [caller.ask(request) for caller in waiting]
        await asyncio.sleep(SETTLED_S)
        if any(answer.done() for answer in answers):
            raise RuntimeError(
                f"{held} fetches must be held, got {sum(map(asyncio.Future.done, answers))} answers"
            )
        kib = (memory_of(running.pid).resident_bytes - before) / held / 1024
        asking.waits()  # what connecting waited for
        begun = time.perf_counter()
        sent = asyncio.to_thread(send, by, TOPIC)
        async with asyncio.timeout(PATIENCE_S):
            _, answered_s = await asyncio.gather(sent, last_answer_s(waiting, answers, begun))
        return kib, answered_s, asking.waits()


SECTION = Section(
    name="held",
    title="Fetches that wait for one record",
    timed=(
        "Each broker is a process, new for each round; the figures are medians. Held fetch: what the process's "
        "resident memory grows by for each. Then one record is produced; last answered: "
        "from sending it to the last response. Longest pass: the longest that a process of its own waited for the "
        "broker's versions meanwhile, without the time in which either had no processor; it asks every 5 ms."
    ),
    lines=lines,
)

"""Three brokers, each a process: what replication costs, and how held produces end when a follower is back."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.kafka.brokers import Running, started_cluster
from bench.kafka.callers import Caller, callers, frame, last_answer_s
from bench.kafka.fetching import first_batch
from bench.kafka.producing import PATIENCE_S, singles_ms
from bench.kafka.settings import KafkaSettings
from bench.measure.collector import Collector
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section
from purgatory_async.kafka.wire import read_response

__all__ = ["SECTION"]

BROKERS = 3
TOPIC = "replicated"
PRODUCE = 0, 9
LOOK_S = 0.1
GOALS = {
    "acks=1, one by one, p50": "<= 0.7 ms",
    "acks=all, one by one, p50": "<= 1.2 ms",
    "held produces, last answered": "<= 1 s",
}


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """The medians of all rounds; no other broker here has replicas."""
    found: dict[str, list[float]] = {}
    units = {}
    for _ in range(settings.rounds):
        for name, figure, unit in _measured(settings):
            found.setdefault(name, []).append(figure)
            units[name] = unit
    for name, figures in found.items():
        yield Line(
            name=name,
            loop=UVLOOP,
            collector=Collector.DEFAULT,
            unit=units[name],
            ours=median(figures),
            note=f"goal {GOALS[name]}" if name in GOALS else "",
        )


def _measured(settings: KafkaSettings) -> Iterator[tuple[str, float, str]]:
    options = ("--replica-lag", "120", "--max-connections", str(settings.produces + 100))
    with started_cluster(BROKERS, *options) as brokers:
        leader = brokers[0].address
        _create(leader)
        for acks in ("1", "all"):
            for percentile, taken_ms in singles_ms(leader, TOPIC, settings.singles, acks=acks):
                yield f"acks={acks}, one by one, {percentile}", taken_ms, "ms"
        yield "held produces, last answered", run_on(UVLOOP, _hold(brokers, settings.produces)), "s"


def _create(address: str) -> None:
    """Make the topic, with a replica on each broker; the first topic's leader is broker 0."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 1, BROKERS)])[TOPIC].result(PATIENCE_S)


async def _hold(brokers: list[Running], number: int) -> float:
    """Returns the seconds from a follower's return to the last answer."""
    leader, follower = brokers[0].address, brokers[1].pid
    async with callers(leader, number) as waiting, callers(leader, 1) as (asking,):
        batch = await first_batch(asking, TOPIC)
        request = frame(*PRODUCE, **_fields(batch, acks=-1))
        end = await _appended(asking, batch)
        _stop(follower)
        answers = [caller.ask(request) for caller in waiting]
        async with asyncio.timeout(PATIENCE_S):
            while await _appended(asking, batch) <= end + number:  # noqa: ASYNC110 - another process appends
                await asyncio.sleep(LOOK_S)
            begun = time.perf_counter()
            os.kill(follower, signal.SIGCONT)
            taken_s = await last_answer_s(waiting, answers, begun)
    if refused := {error for answer in answers if (error := _part(answer.result()).error_code)}:
        raise RuntimeError(f"all {number} produces must succeed, got {refused}")
    return taken_s


def _stop(pid: int) -> None:
    """Returns once the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


async def _appended(asking: Caller, batch: bytes) -> int:
    """Append another, and return its offset."""
    part = _part(await asking.ask(frame(*PRODUCE, **_fields(batch, acks=1))))
    return int(part.base_offset)


def _part(answer: bytes) -> Any:
    """What an answer says of the partition."""
    return read_response(*PRODUCE, answer)[1].responses[0].partition_responses[0]


def _fields(batch: bytes, *, acks: int) -> dict[str, Any]:
    part = {"index": 0, "records": [batch]}
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": round(2 * PATIENCE_S * 1e3),
        "topic_data": [{"name": TOPIC, "partition_data": [part]}],
    }


SECTION = Section(
    name="cluster",
    title="Three brokers, each a process",
    timed=(
        "A topic of one partition with a replica on each; medians. One by one: as in speed, at the leader. Held "
        "produces: one follower is stopped, then each of as many connections sends a produce with acks=all; when all "
        "are appended the follower goes on; from there to the last answer."
    ),
    lines=lines,
)

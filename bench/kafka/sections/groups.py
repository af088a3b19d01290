"""A group of many members, and its rebalance when one leaves."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from struct import pack
from typing import Any

from bench.kafka.brokers import started
from bench.kafka.callers import Caller, callers
from bench.kafka.compared import Figure, compared
from bench.kafka.producing import PATIENCE_S, producer, send
from bench.kafka.settings import KafkaSettings
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Row, Section

__all__ = ["SECTION"]

TOPIC = "shared"
GROUP = "members"
SUBSCRIPTION = pack(f">hih{len(TOPIC)}si", 0, 1, len(TOPIC), TOPIC.encode(), -1)
ASSIGNMENT = pack(">hii", 0, 0, -1)
MEMBER_ID_REQUIRED = 79
JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP = (11, 5), (13, 3), (14, 3)
GOALS = {"a member leaves": "<= 5 s"}


def lines(settings: KafkaSettings) -> Iterator[Row]:
    """For each broker, one round, or more if the settings say so."""
    return compared(_measured, settings, GOALS, rounds=settings.heavy_rounds)


def _measured(broker: str, settings: KafkaSettings) -> Iterator[Figure]:
    with started(broker) as running:
        send(producer(running.address), TOPIC)  # makes the topic
        taken_s = run_on(UVLOOP, _play(running.address, settings.members))
    yield Figure("a member leaves", taken_s, "s")


async def _play(address: str, number: int) -> float:
    async with callers(address, number) as clients, asyncio.timeout(2 * PATIENCE_S):
        ids = await asyncio.gather(*map(_named, clients))
        leaver = {"member_id": ids[-1], "group_instance_id": None}
        await clients[-1].read(*LEAVE_GROUP, group_id=GROUP, members=[leaver])
        begun = time.perf_counter()
        await asyncio.gather(*map(_joined, clients[:-1], ids))
        return time.perf_counter() - begun


async def _named(client: Caller) -> str:
    """Join without an id; the broker gives one to come back with."""
    response = await _join(client, "")
    if response.error_code == MEMBER_ID_REQUIRED:
        return await _joined(client, response.member_id)
    return await _synced(client, response)


async def _joined(client: Caller, member_id: str) -> str:
    return await _synced(client, await _join(client, member_id))


async def _synced(client: Caller, place: Any) -> str:
    _expect("join", place.error_code)
    led = [{"member_id": member.member_id, "assignment": ASSIGNMENT} for member in place.members]
    shared = await client.read(
        *SYNC_GROUP,
        group_id=GROUP,
        generation_id=place.generation_id,
        member_id=place.member_id,
        group_instance_id=None,
        assignments=led,
    )
    _expect("sync", shared.error_code)
    return str(place.member_id)


def _join(client: Caller, member_id: str) -> Awaitable[Any]:
    return client.read(
        *JOIN_GROUP,
        group_id=GROUP,
        session_timeout=60_000,
        rebalance_timeout=60_000,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
    )


def _expect(what: str, code: int) -> None:
    if code:
        raise RuntimeError(f"a {what} must succeed, got error {code}")


SECTION = Section(
    name="groups",
    title="A group of many members",
    timed=(
        "Each member has a connection; all are in one process, not the broker's. When one has left, the others "
        "join again at once, without waiting for a heartbeat to say so: from their first join to the last share."
    ),
    lines=lines,
)

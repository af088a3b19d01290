"""Three processes and an unmodified client: brokers stop, go on, die and come back; nothing acknowledged is lost."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from purgatory_async.kafka.errors import ErrorCode
from tests.kafka.made_batches import batch, records_in
from tests.kafka.plain_client import PlainClient
from tests.kafka.protocol import PRODUCE
from tests.kafka.replication.processes import BROKERS, PATIENCE_S, Processes, eventually
from tests.kafka.socketless import produced

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["asyncio"])]

HELD = 10_000
IN_FLIGHT = 100


class Stream:
    """Produces numbered records with acks=all, until it is left; knows which were acknowledged."""

    def __init__(self, addresses: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": addresses, "enable.idempotence": True, "linger.ms": 1}
        )
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: set[bytes] = set()
        self.failed: list[object] = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *raised):
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            if number - len(self.acknowledged) - len(self.failed) < IN_FLIGHT:
                self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.001)
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error, message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.failed.append(error)

    async def goes_on(self) -> None:
        """Returns once some more records were acknowledged."""
        enough = len(self.acknowledged) + 50

        async def acknowledged():
            await asyncio.sleep(0.01)
            return len(self.acknowledged) >= enough

        await eventually(acknowledged, f"{enough} records acknowledged")


def create(addresses: str, topic: str, partitions: int, replication: int) -> None:
    client = AdminClient({"bootstrap.servers": addresses})
    client.create_topics([NewTopic(topic, partitions, replication)])[topic].result(PATIENCE_S)


def consumed(addresses: str, topic: str, count: int) -> Iterator[bytes]:
    """The first values, read as a member of a group."""
    settings = {"bootstrap.servers": addresses, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        while count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{count} records are missing"
            assert message.error() is None, message.error()
            count -= 1
            yield message.value()
    finally:
        consumer.close()


async def all_reach_all(brokers: Processes) -> None:
    for number in BROKERS:
        await eventually(lambda n=number: sees_all(brokers, n), f"broker {number} reaches all")


async def sees_all(brokers: Processes, number: int) -> bool:
    return await brokers.brokers(number) == set(BROKERS)


async def all_in_sync(brokers: Processes, *expected: int) -> None:
    async def are() -> bool:
        return await brokers.in_sync(0, "t") == set(expected)

    await eventually(are, f"{expected} in sync")


async def test_followers_that_stop_or_die_lose_no_record():
    with Processes("--replica-lag", "1", "--rebalance-delay", "0") as brokers:
        await all_reach_all(brokers)
        await asyncio.to_thread(create, brokers.addresses, "t", 1, 3)
        with Stream(brokers.addresses, "t") as stream:
            await stream.goes_on()
            brokers.stop(1)
            await all_in_sync(brokers, 0, 2)
            await stream.goes_on()
            brokers.resume(1)
            await all_in_sync(brokers, 0, 1, 2)
            brokers.kill(2)
            await all_in_sync(brokers, 0, 1)
            await stream.goes_on()
            brokers.start(2)
            await all_in_sync(brokers, 0, 1, 2)
            await stream.goes_on()
        assert stream.failed == []

        async def watermarks_are_equal() -> bool:
            return len({await brokers.high_watermark(number, "t") for number in BROKERS}) == 1

        await eventually(watermarks_are_equal, "equal high watermarks")
        end = await brokers.high_watermark(0, "t")
        copies = [await brokers.records(number, "t") for number in BROKERS]
        assert copies[1] == copies[0] == copies[2]
        assert {read.value for read in records_in(copies[0])} >= stream.acknowledged
        read = await asyncio.to_thread(lambda: list(consumed(brokers.addresses, "t", end)))
        assert len(read) == len(set(read)) == end


async def test_a_controller_that_dies_and_returns_loses_no_record():
    """It leads the partition too; each kill comes while records are acknowledged."""
    with Processes("--replica-lag", "5", "--rebalance-delay", "0") as brokers:
        await all_reach_all(brokers)
        await asyncio.to_thread(create, brokers.addresses, "t", 1, 3)
        with Stream(brokers.addresses, "t") as stream:
            for _ in range(2):
                await stream.goes_on()
                brokers.kill(0)
                brokers.start(0)
                await stream.goes_on()
            await all_in_sync(brokers, 0, 1, 2)
        assert stream.failed == []
        end = await brokers.high_watermark(0, "t")
        read = await asyncio.to_thread(lambda: list(consumed(brokers.addresses, "t", end)))
        assert set(read) >= stream.acknowledged
        assert len(read) == len(set(read)) == end


async def test_clients_are_told_of_a_leader_that_died():
    with Processes("--replica-lag", "1") as brokers:
        await all_reach_all(brokers)
        await asyncio.to_thread(create, brokers.addresses, "t", 3, 3)
        brokers.kill(2)

        async def leader_is_away() -> bool:
            return (await brokers.partition(1, "t", 2)).leader_id == -1

        await eventually(leader_is_away, "broker 1 tells of the dead leader")
        told = await brokers.partition(1, "t", 2)
        assert told.error_code is ErrorCode.leader_not_available
        assert await brokers.brokers(1) == {0, 1}

        outcomes = await asyncio.to_thread(outcomes_by_partition, brokers.addresses)
        assert outcomes == {0: None, 1: None, 2: "_MSG_TIMED_OUT"}


def outcomes_by_partition(addresses: str) -> dict[int, str | None]:
    """Produce one record to each partition with acks=all; the error's name, or None."""
    producer = Producer({"bootstrap.servers": addresses, "message.timeout.ms": 5_000})
    outcomes: dict[int, str | None] = {}

    def delivered(error, message) -> None:
        outcomes[message.partition()] = None if error is None else error.name()

    for partition in range(3):
        producer.produce("t", b"v", partition=partition, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    return outcomes


async def test_held_produces_are_answered_when_the_follower_is_back():
    options = ("--replica-lag", "120", "--max-connections", str(HELD + 100))
    async with AsyncExitStack() as stack:
        brokers = stack.enter_context(Processes(*options))
        await all_reach_all(brokers)
        await asyncio.to_thread(create, brokers.addresses, "t", 1, 3)
        brokers.stop(1)
        held = [await stack.enter_async_context(client_of(brokers.ports[0])) for _ in range(HELD)]
        for client in held:
            client.send(PRODUCE, 9, **produced("t", batch(), timeout=120_000))
        answers = [asyncio.ensure_future(client.response()) for client in held]

        async def appended() -> bool:
            return (await acks_1(brokers)).base_offset >= HELD

        await eventually(appended, f"{HELD} records appended")
        assert not any(answer.done() for answer in answers)
        brokers.resume(1)
        found = [answer.responses[0].partition_responses[0] for _, answer in await asyncio.gather(*answers)]
        assert {part.error_code for part in found} == {ErrorCode.none}
        assert len({part.base_offset for part in found}) == HELD


def client_of(port: int) -> PlainClient:
    return PlainClient(SimpleNamespace(host="127.0.0.1", port=port))


async def acks_1(brokers: Processes):
    answer = await brokers.ask(0, PRODUCE, 9, **produced("t", batch(), acks=1))
    return answer.responses[0].partition_responses[0]

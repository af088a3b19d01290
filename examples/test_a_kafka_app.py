"""Tests of an application that reads and writes Kafka: a file to copy beside your own tests.

Run it with pytest, or by itself. The fixture ``kafka_broker`` comes with the package: a broker in memory, on the
test's own loop, that aiokafka takes for Kafka. The tests need pytest-asyncio in strict mode.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition

from purgatory_async.kafka.testing import KafkaBroker
from purgatory_async.testing import ManualClock

# The application: it writes an invoice for each order, and commits an order once its invoice is safe.


class Billing(ConsumerRebalanceListener):
    """One worker of the group ``billing``."""

    def __init__(self, servers: str) -> None:
        self.shares: asyncio.Queue[set[int]] = asyncio.Queue()  # the partitions it was given, each time
        self._orders = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        self._invoices = AIOKafkaProducer(bootstrap_servers=servers, acks="all")

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Nothing is kept between two orders."""

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Note the share."""
        self.shares.put_nowait({part.partition for part in assigned})

    async def work(self) -> None:
        """Write invoices until cancelled."""
        self._orders.subscribe(["orders"], listener=self)
        async with self._invoices, self._orders:
            async for order in self._orders:
                await self._invoices.send_and_wait("invoices", b"invoice of " + order.value)
                await self._orders.commit()


@asynccontextmanager
async def working(broker: KafkaBroker) -> AsyncIterator[Billing]:
    worker = Billing(broker.address)
    task = asyncio.create_task(worker.work())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.wait([task])


def invoices(broker: KafkaBroker) -> list[bytes | None]:
    return [record.value for record in broker.records("invoices")]


def committed(broker: KafkaBroker) -> int:
    """The offset up to which orders are done."""
    return broker.node.groups.committed("billing", [("orders", 0)])["orders", 0].offset


# Its tests. None sleeps: `next_request` returns once the broker has a request and holds or answers it.


@pytest.mark.asyncio
async def test_an_order_gets_its_invoice(kafka_broker: KafkaBroker) -> None:
    await kafka_broker.produce("orders", b"42")
    async with working(kafka_broker):
        await kafka_broker.next_request("OffsetCommit")
        assert invoices(kafka_broker) == [b"invoice of 42"]
        assert committed(kafka_broker) == 1


@pytest.mark.asyncio
async def test_a_rebalance_shares_the_partitions(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("orders", partitions=2)
    async with working(kafka_broker) as first:
        assert await first.shares.get() == {0, 1}
        async with working(kafka_broker) as second:
            assert await first.shares.get() | await second.shares.get() == {0, 1}
        assert await first.shares.get() == {0, 1}  # the second has left


@pytest.mark.asyncio
async def test_a_worker_whose_session_expired_comes_back(
    kafka_broker: KafkaBroker, manual_clock: ManualClock
) -> None:
    kafka_broker.create_topic("orders", partitions=1)
    async with working(kafka_broker) as worker:
        assert await worker.shares.get() == {0}
        manual_clock.advance(3600)  # only on the broker's clock: the session is long over
        assert await worker.shares.get() == {0}


@pytest.mark.asyncio
async def test_a_lost_leader_costs_no_invoice(kafka_broker: KafkaBroker) -> None:
    await kafka_broker.produce("orders", b"42")
    moved = kafka_broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    unknown = kafka_broker.fail_next("Fetch", "LEADER_NOT_AVAILABLE")
    async with working(kafka_broker):
        await kafka_broker.next_request("OffsetCommit")
        assert invoices(kafka_broker) == [b"invoice of 42"]
    assert (moved.left, unknown.left) == (0, 0)


@pytest.mark.asyncio
async def test_a_slow_replica_delays_the_commit(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("invoices", partitions=1)
    await kafka_broker.produce("orders", b"42")
    async with working(kafka_broker):
        with kafka_broker.pause("invoices"):
            await kafka_broker.next_request("Produce")
            assert invoices(kafka_broker) == [b"invoice of 42"]  # written, but not yet replicated
            assert committed(kafka_broker) == -1
        await kafka_broker.next_request("OffsetCommit")
        assert committed(kafka_broker) == 1


@pytest.mark.asyncio
async def test_a_slow_broker_holds_the_next_order(kafka_broker: KafkaBroker) -> None:
    await kafka_broker.produce("orders", b"42", b"43")
    async with working(kafka_broker):
        with kafka_broker.hold("Produce"):
            await kafka_broker.next_request("Produce")
            assert "invoices" in kafka_broker.node.topics
            assert invoices(kafka_broker) == []
        await kafka_broker.next_request("OffsetCommit")
        await kafka_broker.next_request("OffsetCommit")
        assert invoices(kafka_broker) == [b"invoice of 42", b"invoice of 43"]


if __name__ == "__main__":
    # Only these two plugins.
    plugins = [
        "--disable-plugin-autoload",
        "-p",
        "pytest_asyncio.plugin",
        "-p",
        "purgatory_async.testing.plugin",
    ]
    command = [sys.executable, "-m", "pytest", "--verbose", "--no-header", "-p", "no:cacheprovider", *plugins]
    sys.exit(subprocess.run([*command, __file__], check=False).returncode)  # noqa: S603 - this file

"""Tests of an application that reads and writes Kafka with a blocking client: a file to copy beside your own tests.

Run it with pytest, or by itself. The fixture ``kafka_broker_sync`` comes with the package: a broker in memory, in a
thread, that confluent-kafka and kafka-python take for Kafka.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from purgatory_async.kafka.testing import SyncKafkaBroker

# The application: it writes an invoice for each order, and commits an order once its invoice is safe.


class Billing:
    """One worker of the group ``billing``."""

    def __init__(self, servers: str) -> None:
        self._orders = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
            }
        )
        self._invoices = Producer({"bootstrap.servers": servers, "acks": "all"})
        self._orders.subscribe(["orders"])

    def next_order(self) -> Message:
        """Wait for an order."""
        while (order := self._orders.poll(0.1)) is None or order.error() is not None:
            pass
        return order

    def bill(self) -> None:
        """Write the invoice of an order; twice, if the group has gone on without this worker meanwhile."""
        while True:
            order = self.next_order()
            self._invoices.produce("invoices", b"invoice of " + (order.value() or b""))
            self._invoices.flush()
            try:
                self._orders.commit(order, asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_MEMBER_ID:
                    raise
            else:
                return

    def close(self) -> None:
        """Leave the group."""
        self._orders.close()


@contextmanager
def working(broker: SyncKafkaBroker) -> Iterator[Billing]:
    worker = Billing(broker.address)
    try:
        yield worker
    finally:
        worker.close()


def invoices(broker: SyncKafkaBroker) -> list[bytes | None]:
    return [record.value for record in broker.records("invoices")]


# Its tests. None sleeps: a block of `expect` ends once the broker has a request and holds or answers it.


def test_an_order_gets_its_invoice(kafka_broker_sync: SyncKafkaBroker) -> None:
    kafka_broker_sync.produce("orders", b"42")
    with working(kafka_broker_sync) as worker:
        worker.bill()
    assert invoices(kafka_broker_sync) == [b"invoice of 42"]
    assert kafka_broker_sync.committed("billing") == {("orders", 0): 1}


def test_an_order_that_was_not_committed_comes_again(kafka_broker_sync: SyncKafkaBroker) -> None:
    kafka_broker_sync.produce("orders", b"42")
    with working(kafka_broker_sync) as worker:
        assert worker.next_order().value() == b"42"  # it ends before it commits
    assert kafka_broker_sync.committed("billing") == {}
    with working(kafka_broker_sync) as worker:
        worker.bill()
    assert invoices(kafka_broker_sync) == [b"invoice of 42"]


def test_a_lost_leader_costs_no_invoice(kafka_broker_sync: SyncKafkaBroker) -> None:
    kafka_broker_sync.produce("orders", b"42")
    moved = kafka_broker_sync.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    with working(kafka_broker_sync) as worker:
        worker.bill()
    assert (invoices(kafka_broker_sync), moved.left) == ([b"invoice of 42"], 0)


def test_a_restart_of_the_broker_costs_no_order(kafka_broker_sync: SyncKafkaBroker) -> None:
    kafka_broker_sync.produce("orders", b"42", b"43")
    with working(kafka_broker_sync) as worker:
        worker.bill()
        kafka_broker_sync.stop()
        kafka_broker_sync.start()  # at the same port
        worker.bill()
    assert invoices(kafka_broker_sync) == [b"invoice of 42", b"invoice of 43"]


def test_a_slow_broker_delays_the_commit(kafka_broker_sync: SyncKafkaBroker) -> None:
    kafka_broker_sync.produce("orders", b"42")
    with ThreadPoolExecutor() as threads, working(kafka_broker_sync) as worker:
        with kafka_broker_sync.hold("Produce"):
            with kafka_broker_sync.expect("Produce"):
                billing = threads.submit(worker.bill)
            assert invoices(kafka_broker_sync) == []
            assert kafka_broker_sync.committed("billing") == {}
        billing.result()
    assert kafka_broker_sync.committed("billing") == {("orders", 0): 1}


def test_a_worker_whose_session_expired_comes_back(kafka_broker_sync: SyncKafkaBroker) -> None:
    kafka_broker_sync.produce("orders", b"42")
    with working(kafka_broker_sync) as worker:
        worker.bill()
        assert len(kafka_broker_sync.expire_session("billing")) == 1
        kafka_broker_sync.produce("orders", b"43")
        worker.bill()
    assert invoices(kafka_broker_sync)[-1] == b"invoice of 43"
    assert kafka_broker_sync.committed("billing") == {("orders", 0): 2}


if __name__ == "__main__":
    # Only this plugin, and no settings of the folder.
    options = ["-c", os.devnull, "--disable-plugin-autoload", "-p", "purgatory_async.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "--verbose", "--no-header", "-p", "no:cacheprovider", *options]
    sys.exit(subprocess.run([*command, __file__], check=False).returncode)  # noqa: S603 - this file

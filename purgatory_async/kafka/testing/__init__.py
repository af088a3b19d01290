"""A broker for tests: what a `Broker` does, and what a test must be able to do to it.

    KafkaBroker        write and read records, refuse requests, hold them, pause partitions, expire sessions
    SyncKafkaBroker    the same for tests that are plain functions, in a thread
    Record             what `KafkaBroker.records` returns
    Refusal            what `KafkaBroker.fail_next` returns

The pytest plugin's fixture ``kafka_broker`` is a `KafkaBroker`, started on the test's own loop;
``kafka_broker_sync`` is a `SyncKafkaBroker`.
"""

from purgatory_async.kafka.testing.broker import KafkaBroker
from purgatory_async.kafka.testing.records import Record
from purgatory_async.kafka.testing.refusals import Refusal
from purgatory_async.kafka.testing.threaded import SyncKafkaBroker

__all__ = ["KafkaBroker", "Record", "Refusal", "SyncKafkaBroker"]

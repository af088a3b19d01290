"""The fixture ``kafka_broker_sync``: the same broker for plain functions, in a thread that leaves nothing behind."""

import asyncio
import inspect
import signal
import socket
import threading
from functools import partial

import pytest

from purgatory_async import OperationExpired
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.testing import KafkaBroker, SyncKafkaBroker
from tests.kafka import protocol
from tests.kafka.test_kafka_broker import REFUSABLE

OFFSET_COMMIT, METADATA = 8, protocol.METADATA
OF_THREADS = {"call", "expect"}
OF_THE_LOOP = {"answer", "connections", "lost", "opened"}  # as its connections use it


def verbs(kind):
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "kafka_broker_sync"]


def ask(broker, key, version, /, **values):
    """Send a request over a connection of its own, and read the answer."""
    with socket.create_connection((broker.host, broker.port)) as client, client.makefile("rb") as reader:
        client.sendall(protocol.with_length(protocol.request_frame(key, version, **values)))
        frame = reader.read(int.from_bytes(reader.read(4), "big"))
    return protocol.response(key, version, frame)[1]


def test_it_has_the_verbs_of_the_async_one():
    blocking, waiting = verbs(SyncKafkaBroker), verbs(KafkaBroker)
    assert blocking.keys() - OF_THREADS - {"host", "port"} == waiting.keys() - OF_THE_LOOP
    for name, member in blocking.items():
        if inspect.isfunction(member) and name not in OF_THREADS:
            taken = inspect.signature(member).parameters
            assert taken == inspect.signature(waiting[name]).parameters, name


def test_a_plain_function_writes_and_reads(kafka_broker_sync):
    kafka_broker_sync.create_topic("t", partitions=2)
    assert kafka_broker_sync.produce("t", b"a", None, key=b"k", partition=1) == range(2)
    assert [(record.partition, record.value) for record in kafka_broker_sync.records("t")] == [
        (1, b"a"),
        (1, None),
    ]
    assert ask(kafka_broker_sync, METADATA, 9, topics=None).brokers[0].port == kafka_broker_sync.port


@pytest.mark.kafka_broker(partitions=3)
def test_the_marker_gives_it_settings(kafka_broker_sync):
    assert kafka_broker_sync.call(lambda broker: broker.node.settings.partitions) == 3


def test_disturbances_take_effect_and_end(kafka_broker_sync):
    kafka_broker_sync.create_topic("t", partitions=1)
    refusal = kafka_broker_sync.fail_next("OffsetCommit", "NOT_COORDINATOR")
    commit = partial(ask, kafka_broker_sync, OFFSET_COMMIT, 8, **REFUSABLE["OffsetCommit"])
    (topic,) = commit().topics
    assert (topic.partitions[0].error_code, refusal.left) == (ErrorCode.not_coordinator, 0)
    with kafka_broker_sync.hold("OffsetCommit"):
        committing = threading.Thread(target=commit)
        with kafka_broker_sync.expect("OffsetCommit"):
            committing.start()
        assert kafka_broker_sync.committed("g") == {}
    committing.join()
    assert kafka_broker_sync.committed("g") == {("t", 0): 1}
    with kafka_broker_sync.pause("t"):
        kafka_broker_sync.produce("t", b"a")
        assert kafka_broker_sync.call(high_watermark) == 0
    assert kafka_broker_sync.call(high_watermark) == 1


def high_watermark(broker):
    return broker.node.topics.partition("t", 0).high_watermark


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda broker: broker.produce("t", "a"), TypeError, "bytes or None, got 'a'; encode"),
        (lambda broker: broker.records("t"), ProtocolError, "'t' must exist"),
        (lambda broker: broker.hold("Prodcue"), ValueError, "got 'Prodcue'"),
        (lambda broker: broker.expect("Prodcue").__enter__(), ValueError, "got 'Prodcue'"),
        (lambda broker: broker.next_request("Fetch", timeout=0), OperationExpired, ""),
    ],
)
def test_an_error_is_raised_in_the_caller(kafka_broker_sync, call, error, message):
    with pytest.raises(error, match=message or None):
        call(kafka_broker_sync)


def test_a_call_on_a_running_loop_is_refused(kafka_broker_sync):
    async def block():
        kafka_broker_sync.records("t")

    with pytest.raises(
        RuntimeError, match=r"blocks: cannot be called on a running event loop.*use kafka_broker"
    ):
        asyncio.run(block())


@pytest.fixture
def interruptible():
    """A process in which a signal interrupts; those that run tests side by side ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_waits_no_longer(kafka_broker_sync):
    interrupt = partial(signal.pthread_kill, threading.main_thread().ident, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), kafka_broker_sync.expect("Fetch"):
        threading.Timer(0.05, interrupt).start()
    assert kafka_broker_sync.call(lambda broker: broker._requests.pending) == 0


def test_what_is_due_runs_on_the_brokers_loop(kafka_broker_sync, manual_clock):
    ran = []

    def later(broker):
        cancelled = broker.node.timer.call_later(3600, ran.append, "cancelled")
        broker.node.timer.call_later(
            3600, lambda: (cancelled.cancel(), ran.append(threading.current_thread().name))
        )
        return cancelled

    kafka_broker_sync.call(later)
    manual_clock.advance(3599)
    assert ran == []
    manual_clock.advance(1)
    assert ran[-1] == "kafka_broker_sync"
    kafka_broker_sync.call(lambda broker: broker.node.timer.call_later(1, ran.append, "from the loop"))
    kafka_broker_sync.call(lambda _: manual_clock.advance(1))
    assert ran[-1] == "from the loop"


def test_nothing_is_left_after_a_failing_block():
    def fail():
        with SyncKafkaBroker() as broker, socket.create_connection((broker.host, broker.port)):
            left.extend((broker, broker._begin(KafkaBroker.next_request, "Fetch")))
            raise ZeroDivisionError

    left = []
    with pytest.raises(ZeroDivisionError):
        fail()
    broker, waiting = left
    assert (threads(), waiting.done()) == ([], True)
    with pytest.raises(RuntimeError, match="cannot be called"):
        broker.records("t")


@pytest.mark.parametrize("settings", [{"partitions": -1}, {"no_such": 1}])
def test_a_start_that_fails_raises_and_leaves_no_thread(settings):
    with pytest.raises((ValueError, TypeError), match=next(iter(settings))):
        SyncKafkaBroker(**settings).__enter__()
    assert threads() == []


def test_a_loop_that_cannot_be_made_is_an_error_of_the_start(monkeypatch):
    def fail():
        raise OSError("too many open files")

    monkeypatch.setattr(asyncio.events, "new_event_loop", fail)
    with pytest.raises(OSError, match="too many open files"):
        SyncKafkaBroker().__enter__()
    assert threads() == []


def test_a_broker_that_is_not_started_says_so():
    with pytest.raises(RuntimeError, match="is not started: cannot be called; use it in a with block"):
        SyncKafkaBroker().records("t")


def test_it_is_gone_and_comes_back_at_its_port(kafka_broker_sync):
    kafka_broker_sync.produce("t", b"a")
    port = kafka_broker_sync.port
    with socket.create_connection(("127.0.0.1", port)) as client:
        kafka_broker_sync.stop()
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    kafka_broker_sync.start()
    assert (ask(kafka_broker_sync, METADATA, 9, topics=None).brokers[0].port, kafka_broker_sync.port) == (
        port,
        port,
    )
    assert len(kafka_broker_sync.records("t")) == 1

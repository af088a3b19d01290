"""A query whose Python worker is slow to start is started again; any other failure ends it."""

import signal
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.jobs.queries import damage_explained, run_query, stop_asked

SLOW = "terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class Query:
    """Fails with a message, or ends without one."""

    def __init__(self, message="", batches=0):
        self.message, self.stopped = message, False
        self.lastProgress = {} if batches else None

    def awaitTermination(self, _):  # noqa: N802 - as Spark calls it
        if self.message:
            raise StreamingQueryException(self.message)
        return True

    def stop(self):
        self.stopped = True


def run(*queries):
    left = iter(queries)
    run_query(lambda: next(left), lambda _: False)
    assert all(query.stopped for query in queries)
    return list(left)


def test_a_slow_worker_costs_a_start_and_is_reported(capsys):
    assert run(Query(SLOW), Query(SLOW), Query()) == []
    assert capsys.readouterr().err.splitlines() == [
        "purgatory: a Python worker of Spark did not start within 10 s; starting the query again (2 of 5)",
        "purgatory: a Python worker of Spark did not start within 10 s; starting the query again (3 of 5)",
    ]


def test_a_worker_slow_five_times_in_a_row_is_refused():
    queries = [Query(SLOW) for _ in range(5)]
    with pytest.raises(Refused, match="5 times in a row; start the command again when the machine is less"):
        run(*queries)
    assert all(query.stopped for query in queries)


def test_a_batch_between_slow_starts_counts_them_anew():
    assert run(*(Query(SLOW, batches=1) for _ in range(9)), Query()) == []


def test_another_failure_is_not_tried_again():
    failed = Query("terminated with exception: division by zero")
    with pytest.raises(StreamingQueryException, match="division by zero"):
        run(failed)
    assert failed.stopped


def test_a_query_that_is_finished_is_stopped():
    query = Query()
    query.awaitTermination = lambda _: False
    run_query(lambda: query, lambda asked: asked is query)
    assert query.stopped


STATE = """org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3)
Caused by: java.io.IOException: corrupted
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:9)
\tat org.apache.spark.sql.execution.streaming.{}.Reader.next(Reader.scala:7)
\tat org.apache.spark.scheduler.Task.run(Task.scala:1)
Caused by: java.io.EOFException: 4.changelog
\tat java.base/java.io.DataInputStream.readFully(DataInputStream.java:7)
\t... 2 more"""


@pytest.mark.parametrize("part", ["state", "checkpointing"])
def test_what_spark_finds_in_a_checkpoint_is_one_line(part):
    message = r"--checkpoint c cannot be continued: java\.io\.EOFException: 4\.changelog; if a file is damaged, begin"
    with pytest.raises(Refused, match=message), damage_explained(Path("c")):
        raise Py4JError(STATE.format(part))


def test_what_spark_finds_elsewhere_is_the_error():
    with pytest.raises(Py4JError), damage_explained(Path("c")):
        raise Py4JError(STATE.format("python"))


@pytest.fixture
def interruptible():
    """A shell starts its background jobs with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_error_after_a_signal_counts_as_the_signal():
    # The fault: the signal ended Spark's Java as well, and the call that fails for it is shown with its stack.
    def stop_spark():
        """Get a signal, and then an error for it."""
        with stop_asked() as stopped:
            assert not stopped()
            signal.raise_signal(signal.SIGINT)
            assert stopped()
            raise ConnectionRefusedError

    with pytest.raises(KeyboardInterrupt):
        stop_spark()


def test_an_error_without_a_signal_is_the_error():
    with pytest.raises(ConnectionRefusedError), stop_asked():
        raise ConnectionRefusedError

"""Opens a job's Spark session with our settings, and stops it at the end."""

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseServer
from tempfile import TemporaryDirectory
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it comes with PySpark
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.environment import (
    EXECUTOR_LOCALE,
    check_user,
    environment_of_spark,
    without_modes,
)
from purgatory_async.pipeline.java import find_java_home
from purgatory_async.pipeline.masters import check_connect, check_master

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_MOST_MEMORY: Final = 4 * 2**30  # bytes of the driver; five million rows fit

_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()

# Results depend on these settings, wherever Spark runs.
MEANING: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
# Only where this process starts Spark; spark-submit and a server have their own.
QUIET: Final = {
    _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOGGING}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
# A short job ends before a better compiler or collector pays for its work. Without shuffles a query is one stage, and
# is not planned anew after each.
SHORT: Final = {"spark.sql.adaptive.enabled": "false", _PARTITIONS: "1"}
SHORT_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Other machines must not reach a Spark that runs in this process.
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def open_session(
    app_name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
    short: bool = False,
) -> Iterator[SparkSession]:
    """Start a session or connect to one, yield it, and stop it at the end.

    A session that is already active in this process is yielded as it is, and left running. Under spark-submit, its
    settings for master and machines win.

    Args:
        app_name: The job's name in Spark.
        master: Where Spark runs; by default on all cores of this machine.
        remote: A Spark Connect server instead, such as ``sc://host:15002``.
        settings: Further Spark settings; they win over the defaults here.
        java_options: Further options of the Java that is started here, if one is.
        short: Whether there is little to do, so that a Spark on this machine should start quickly rather than be fast.

    Raises:
        Refused: No Java that Spark can run on was found, no master or server answers, or Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with TemporaryDirectory(prefix="purgatory-spark-") as scratch:
        if remote is not None and not remote.startswith("local"):
            check_connect(remote)
            place, environment = {"spark.remote": remote}, dict[str, str | None]()
        elif "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit
            place, environment = EXECUTOR_LOCALE, {}
        else:
            place, environment = _started_here(master, remote, Path(scratch), java_options, short=short)
        _expect_that_java_ends_first()
        with _exported(without_modes(os.environ)):
            with _exported(environment):
                spark = _started(app_name, {**place, **MEANING, **(settings or {})})
            try:
                yield spark
            finally:
                # A signal to the process group may have ended Java before.
                with suppress(Py4JError, OSError):
                    spark.stop()


def stateful_tasks(spark: SparkSession) -> int:
    """How many tasks a stage with state should have at most.

    On this machine, half the cores: each such task keeps a thread of Java and a Python process busy. Elsewhere, the
    session's ``spark.sql.shuffle.partitions``: the number is kept as long as the state, and a cluster's cores of the
    moment say little, as executors register late, and come and go.
    """
    master = spark.conf.get("spark.master") or ""
    if master.startswith("local["):
        return max(1, _cores(master) // 2)
    return int(spark.conf.get(_PARTITIONS) or 1)


def _started(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session; a start that fails is refused with the first line of Spark's reason."""
    try:
        return SparkSession.builder.appName(app_name).config(map=dict(settings)).getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        reason = str(getattr(error, "java_exception", None) or error).strip().partition("\n")[0]
        where = settings.get("spark.remote") or settings.get("spark.master") or "spark-submit"
        raise Refused(f"Spark does not start on {where.partition('/;')[0]}: {reason}") from None


def _started_here(
    master: str | None, remote: str | None, scratch: Path, java_options: str, *, short: bool
) -> tuple[dict[str, str], dict[str, str | None]]:
    """The settings and the environment of a Spark that this process starts."""
    where = remote or master or "local[*]"
    check_user()
    check_master(where, os.environ)
    place = {
        "spark.master" if remote is None else "spark.remote": where,
        "spark.sql.warehouse.dir": f"file://{scratch}/warehouse",
        **QUIET,
    }
    place[_JAVA_OPTIONS] = f"{QUIET[_JAVA_OPTIONS]} {java_options}".rstrip()
    here = where.startswith("local")
    environment = environment_of_spark(os.environ, here=here)
    environment["JAVA_HOME"] = find_java_home(os.environ, scratch)
    if here:
        memory = min(_MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
        place |= LOOPBACK
        place["spark.driver.memory"] = f"{memory >> 20}m"
        place[_PARTITIONS] = str(2 * _cores(where))
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        if short:
            place |= SHORT
            place[_JAVA_OPTIONS] += f" {SHORT_JAVA}"
    else:
        place |= EXECUTOR_LOCALE
    return place, environment


def _cores(where: str) -> int:
    """How many tasks a local master runs at once."""
    number = re.match(r"local\[(\d+)", where)
    return int(number[1]) if number else os.cpu_count() or 1


def _expect_that_java_ends_first() -> None:
    """Let PySpark print no stack when a signal to the process group ends Java before this process."""
    logging.getLogger().addFilter(_is_not_py4j)
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _handle_error  # type: ignore[assignment, method-assign] # takes less


def _is_not_py4j(record: logging.LogRecord) -> bool:
    # Py4J logs a lost connection on the root logger, and then raises an error for it.
    return record.module != "java_gateway"


def _handle_error(server: BaseServer, request: Any, address: Any) -> None:
    if not isinstance(sys.exception(), EOFError | OSError):
        BaseServer.handle_error(server, request, address)


@contextmanager
def _exported(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change the environment for the block; None removes a variable, unless the block sets it."""
    before = {name: os.environ.pop(name) for name in changes if name in os.environ}
    os.environ.update({name: value for name, value in changes.items() if value is not None})
    try:
        yield
    finally:
        for name, value in changes.items():
            if value is not None:
                del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name not in os.environ})

"""Spark in processes of its own on this machine: a standalone cluster, and a Connect server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from purgatory_async.pipeline.java import find_java_home
from tests.ports import free_port
from tests.source_tree import ROOT

PROGRAMS = Path(pyspark.__file__).parent / "bin"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
WORKERS = 2
PATIENCE_S = 300
GRACE_S = 30

# No test runs long enough for a better compiler or collector to be worth its start.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DEFAULTS = f"""\
spark.executor.extraJavaOptions {BRIEF}
spark.sql.shuffle.partitions 2
spark.ui.enabled false
"""


def environment(directory: Path) -> dict[str, str]:
    """The environment of a cluster's processes and users: all on the loopback, all files under a directory.

    They run on the Java that pip installed, which has no more than what Spark needs.
    """
    configuration = directory / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    (configuration / "spark-defaults.conf").write_text(DEFAULTS)
    return os.environ | {
        "JAVA_HOME": find_java_home({"HOME": os.environ.get("HOME", "")}, directory),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_DAEMON_JAVA_OPTS": BRIEF,
        "SPARK_DAEMON_MEMORY": "512m",  # the least that a Connect server takes
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # its port would be 6066, or the next
        "SPARK_SUBMIT_OPTS": BRIEF,
    }


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Start a master and two workers of one core and 1 GB each, in a locale without umlauts; yields its URL."""
    settings = environment(directory) | {"LC_ALL": "C"}
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as ended:

        def start(name: str, *program: object) -> tuple[subprocess.Popen, Path]:
            place = directory / name
            command = (PROGRAMS / "spark-class", *program, "--host", "127.0.0.1")
            return ended.enter_context(running(place, settings, *command)), place

        master = start("master", MASTER, "--port", port, "--webui-port", page)
        wait_until(lambda: alive_workers(page) is not None, *master)
        for number in range(WORKERS):
            work = directory / f"worker{number}"
            size = ("--cores", 1, "--memory", "1g", "--work-dir", work)
            start(work.name, WORKER, "--webui-port", 0, *size, url)
        wait_until(lambda: alive_workers(page) == WORKERS, *master)
        yield url


def alive_workers(page: int) -> int | None:
    """How many workers a master has, by its page; None before there is one."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return json.load(answer)["aliveworkers"]
    except OSError:
        return None


@contextmanager
def connect_server(directory: Path, master: str) -> Iterator[str]:
    """Start a Connect server whose tasks run on a master's workers; yields its URL."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.executorEnv.LC_ALL": "C.UTF-8",
        "spark.sql.warehouse.dir": directory / "warehouse",
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = ("--master", master, *conf, "--class", CONNECT, "spark-internal")
    with running(directory, environment(directory), PROGRAMS / "spark-submit", *server) as process:
        wait_until(lambda: listening(port), process, directory)
        yield f"sc://127.0.0.1:{port}"


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(directory: Path, settings: dict[str, str], *command: object) -> Iterator[subprocess.Popen]:
    """Run a program in a directory until the block ends; what it says is in ``log`` there."""
    directory.mkdir(exist_ok=True)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, command)],
            env=settings,
            cwd=directory,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen, directory: Path) -> None:
    """Wait for a program to be ready; AssertionError with the end of its log if it ends or takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(
                f"it is not ready: {(directory / 'log').read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.1)

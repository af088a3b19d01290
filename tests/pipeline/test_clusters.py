"""The same commands where Spark is a process of its own: a Connect server, and an executor beside the driver."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.journals import MS, Node, live
from tests.pipeline.without_java import path_without_java
from tests.ports import free_port
from tests.source_tree import PACKAGE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
PATIENCE_S = 300
SHAPE = ["--requests", "200000", "--rate", "1000", "--profile", "low", "--keys", "3"]
MAIN = """
from purgatory_async.__main__ import __file__, main

assert "package.zip" in __file__, f"the package is that in {__file__}"
main()
"""


@pytest.fixture
def journal(tmp_path):
    """Three operations: one completed, one expired, one pending."""
    node = Node()
    for number in range(3):
        node.submit(f"op{number}", number * MS)
    node.outcome("op0", 50 * MS, latency=50 * MS)
    node.outcome("op1", 201 * MS, "expired", latency=200 * MS, lateness_ns=0)
    directory = tmp_path / "journal"
    directory.mkdir()
    live(directory, node.records)
    return directory


def finished(*command, **how):
    """Run a program; its summary."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=PATIENCE_S, **how
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_both_commands(tmp_path, journal, pipeline):
    """The workload equals that of a process without Spark; a report finds what the journal holds."""
    alone = finished(
        *(
            sys.executable,
            "-m",
            PACKAGE,
            "pipeline",
            "workload",
            "--out",
            tmp_path / "alone",
            *SHAPE,
            "--no-spark",
        ),
        cwd=ROOT,
    )
    assert pipeline("workload", "--out", tmp_path / "made", *SHAPE, "--partitions", "2") == alone
    report = pipeline("report", "--journal", journal, "--out", tmp_path / "report")
    assert report["operations"] == 3
    ends = {outcome: number for outcome, number in report["outcomes"].items() if number}
    assert ends == {"completed": 1, "expired": 1, "pending": 1}
    assert (tmp_path / "report" / "report.html").exists()


@pytest.fixture
def server(tmp_path):
    """The address of a Connect server, which ends with the test."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.sql.warehouse.dir": tmp_path / "warehouse",
        "spark.ui.enabled": "false",
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log = tmp_path / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [SUBMIT, "--master", "local[2]", *conf, "--class", SERVER, "spark-internal"],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for_port(port, process, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_port(port, process, log):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"the server does not listen: {log.read_text(errors='replace')[-2000:]}")


def test_commands_run_on_a_connect_server_without_local_java(tmp_path, journal, server):
    tools = path_without_java(tmp_path / "tools")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": tools,
        "PYTHONPATH": str(ROOT),
    }

    def pipeline(*arguments):
        command = (sys.executable, "-m", PACKAGE, "pipeline", *arguments, "--remote", server)
        return finished(*command, env=environment, cwd=tmp_path)

    check_both_commands(tmp_path, journal, pipeline)
    left = {"alone", "journal", "made", "report", "server.log", "tools"}
    assert {path.name for path in tmp_path.iterdir()} - {"warehouse"} == left


def test_commands_run_under_spark_submit_from_an_archive(tmp_path, journal):
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in sorted((ROOT / PACKAGE).rglob("*")):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
    (tmp_path / "main.py").write_text(MAIN)
    conf = ["--conf", "spark.ui.enabled=false", "--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse"]

    def pipeline(*arguments):
        submit = (SUBMIT, "--master", "local-cluster[1,1,1024]", *conf)
        program = ("--py-files", tmp_path / "package.zip", tmp_path / "main.py", "pipeline", *arguments)
        # Without our tree on the path: what the executor imports is in the archive.
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        return finished(*submit, *program, env=environment, cwd=tmp_path)

    check_both_commands(tmp_path, journal, pipeline)

"""A place that workers do not see as the driver does is found before the work, on a cluster of several machines.

The machines are processes with a host name and mounts of their own, so a directory can be hidden from one of them.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from purgatory_async.pipeline.shared import any_of
from purgatory_async.pipeline.source.extent import survey
from tests.pipeline.journals import MS, Node, live
from tests.ports import free_port
from tests.source_tree import PACKAGE, ROOT

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER, WORKER = (f"org.apache.spark.deploy.{kind}" for kind in ("master.Master", "worker.Worker"))
PATIENCE_S = 300
APART = ("unshare", "--mount", "--uts", "sh", "-c")


def can_be_apart():
    return shutil.which("unshare") and subprocess.run([*APART, "hostname x"], check=False).returncode == 0


@contextmanager
def cluster(directory, machines):
    """Start a master, and a worker on each machine, given as the shell command that prepares it; its address."""
    port, page = free_port(), free_port()
    at_home = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(directory),
    }
    with (directory / "log").open("wb") as log:
        how = {"env": environment, "cwd": directory, "stdout": log, "stderr": subprocess.STDOUT}
        started = [subprocess.Popen([SPARK_CLASS, MASTER, *at_home], **how)]
        try:
            for prepare in machines:
                worker = (
                    f"{SPARK_CLASS} {WORKER} --cores 1 --memory 1g --webui-port 0 spark://127.0.0.1:{port}"
                )
                started.append(subprocess.Popen([*APART, f"{prepare} && exec {worker}"], **how))
            wait_for_workers(f"http://127.0.0.1:{page}/json/", len(machines), directory / "log")
            yield f"spark://127.0.0.1:{port}"
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait()


def wait_for_workers(page, number, log):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == number:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"the workers do not come: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture
def journal(tmp_path):
    node = Node()
    node.submit("op", 0)
    node.outcome("op", 5 * MS, latency=5 * MS)
    directory = tmp_path / "journal"
    directory.mkdir()
    live(directory, node.records)
    return directory


@pytest.mark.slow
@pytest.mark.skipif(not can_be_apart(), reason="processes cannot have mounts of their own: run as root")
def test_a_place_that_a_worker_does_not_see_is_refused(tmp_path, journal):
    scratch, hidden = tmp_path / "scratch", tmp_path / "hidden"
    scratch.mkdir()
    shutil.copytree(journal, hidden / "journal")

    def run(master, source, out):
        command = (sys.executable, "-m", PACKAGE, "pipeline", "windows", "--window", "1", "--master", master)
        done = subprocess.run(
            [*command, "--journal", source, "--out", out],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            cwd=ROOT,
        )
        return done.returncode, done.stdout, done.stderr.splitlines()

    with cluster(scratch, [f"hostname other && mount -t tmpfs none {hidden}"]) as master:
        code, _, said = run(master, journal, tmp_path / "out")
        assert code == 0, said
        code, out, [line] = run(master, journal, hidden / "out")
        assert (code, out) == (2, "")
        assert f"--out: {hidden}/.out-" in line
        assert "Spark's worker on other: No such file or directory; name one that" in line
        code, out, [line] = run(master, hidden / "journal", tmp_path / "more")
        assert (code, out) == (2, "")
        assert f"--journal: {hidden}/journal/run.n1.000001.jsonl is not what it is here" in line
    assert {path.name for path in hidden.iterdir()} == {"journal"}
    assert not (tmp_path / "more").exists()


def test_of_a_journal_either_form_of_a_segment_is_looked_for(journal):
    names = [journal / f"run.n1.000001.{form}" for form in ("jsonl", "parquet")]
    assert any_of(survey(journal)) == names
    names[0].unlink()
    assert any_of(survey(journal)) == []

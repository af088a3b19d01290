"""Commands on a standalone cluster, over Spark Connect and under spark-submit: the results are as on local[2]."""

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from random import Random

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as sf

from purgatory_async.pipeline.jobs import distributed, report, stream, whatif, windows, workload
from purgatory_async.pipeline.output import spark_path
from tests.pipeline.clusters import PATIENCE_S, PROGRAMS, connect_server, environment, standalone
from tests.pipeline.distributed.purgatory_oracle import Operation, Signal
from tests.pipeline.journals import MS, Node, append, live, rotated
from tests.pipeline.parquet_inputs import Inputs, committed_files
from tests.pipeline.without_java import path_without_java
from tests.source_tree import PACKAGE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SECOND = 1000 * MS
T = 1_700_000_000 * SECOND

# On a busy machine; the job goes on.
SLOW = ("a Python worker of Spark did not start within 10 s", "Initial job has not accepted any resources")

DRAINED = "--available-now --checkpoint {1}/state"
COMMANDS = {
    "workload": (workload, "--requests 70000 --rate 1000 --profile low --keys 3 --partitions 2"),
    "report": (report, "--journal {0}/journal"),
    "whatif": (whatif, "--journal {0}/journal --timeout 0.1 --timeout 0.3"),
    "windows": (windows, "--journal {0}/journal --window 1"),
    "stream": (stream, f"--journal {{0}}/journal --window 1 --files-per-batch 2 {DRAINED}"),
    "distributed": (
        distributed,
        f"--operations {{0}}/operations --signals {{0}}/signals --time event --shards 2 {DRAINED}",
    ),
}

MAIN = """
from purgatory_async.__main__ import __file__, main

assert "package.zip" in __file__, f"the package is that in {__file__}"
main()
"""


def node(name, some):
    """200 operations that complete by a signal, expire or stay pending."""
    events = []
    for number in range(200):
        at, key, latency = number * 20 * MS, f"k{some.randrange(9)}", some.randrange(400 * MS)
        events.append((at, "submit", number, key, 0))
        if latency < 200 * MS:
            events.append((at + latency, "signal", number, key, 0))
            events.append((at + latency, "stop", number, key, latency))
        elif number % 7:
            events.append((at + 201 * MS, "stop", number, key, 201 * MS))
    made = Node(node=name)
    for at, kind, number, key, latency in sorted(events):
        if kind == "submit":
            made.submit(f"op{number}", at, keys=(key, "all"))
        elif kind == "signal":
            made.signal(key, at)
        elif latency < 200 * MS:
            made.outcome(f"op{number}", at, keys=(key, "all"), latency=latency)
        else:
            made.outcome(f"op{number}", at, "expired", (key, "all"), latency, lateness_ns=MS)
    return made


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A journal in both formats with a damaged line, and two files of operations and of signals."""
    place, some = tmp_path_factory.mktemp("inputs-ü"), Random(1)
    (place / "journal").mkdir()
    for name in ("n1", "n2"):
        records = node(name, some).records
        for number, start in enumerate(range(0, len(records), len(records) // 2), start=1):
            part = records[start : start + len(records) // 2]
            write = rotated if number == 1 else live
            path = write(place / "journal", part, number, node=name)
    append(path, b"no record\n")
    made = Inputs(place)
    for start in (0, 150):
        instants = [T + number * SECOND // 10 for number in range(start, start + 150)]
        # The newest of each file is satisfied at submission, and moves the watermark nevertheless.
        made.submit(
            *(operation(at, some, needed=1) for at in instants[:-1]), operation(instants[-1], some, 0)
        )
        made.signal(*(Signal(f"k{some.randrange(20)}", at + 7, some.randint(1, 2)) for at in instants))
    return place


def operation(at, some, needed):
    keys = tuple(f"k{some.randrange(20)}" for _ in range(some.randint(0, 3)))
    return Operation(f"op{at}", keys, needed and some.randint(0, 3), at, some.randrange(5 * SECOND))


class Local:
    """What commands give on local[2], in the session of this process."""

    def __init__(self, spark, inputs, directory):
        self.spark, self.inputs, self.directory = spark, inputs, directory
        self.known = {}

    def options(self, job, directory):
        """Of a command whose results go to ``out`` in a directory."""
        return [*COMMANDS[job][1].format(self.inputs, directory).split(), "--out", str(directory / "out")]

    def result(self, job):
        """A command's summary and tables."""
        if job not in self.known:
            directory = self.directory / job
            directory.mkdir()
            command = COMMANDS[job][0].command
            done = CliRunner().invoke(command, self.options(job, directory), catch_exceptions=False)
            assert done.exit_code == 0, done.output
            self.known[job] = json.loads(done.stdout.splitlines()[-1]), self.tables(directory / "out")
        return self.known[job]

    def tables(self, out):
        """The rows of each table in a directory, in any order."""
        if (out / "outcomes" / "_spark_metadata").exists():
            return self.rows(self.spark.read.parquet(*map(str, committed_files(out / "outcomes"))))
        places = {path.parent for path in out.rglob("*.parquet") if not path.name.startswith(".")}
        assert places
        files = self.spark.read.option(
            "pathGlobFilter", "*.parquet"
        )  # a workload has its manifest among them
        return {str(place.relative_to(out)): self.rows(files.parquet(spark_path(place))) for place in places}

    @staticmethod
    def rows(table):
        if "latency_sketch" in table.columns:  # the bytes of equal sketches may differ
            n = sf.kll_sketch_get_n_bigint("latency_sketch").alias("n")
            median = sf.kll_sketch_get_quantile_bigint("latency_sketch", sf.lit(0.5)).alias("median")
            table = table.select("*", n, median).drop("latency_sketch")
        return Counter(map(repr, table.collect()))


@pytest.fixture(scope="module")
def local(spark, inputs, tmp_path_factory):
    return Local(spark, inputs, tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("standalone")) as url:
        yield url


@pytest.fixture(scope="module", params=["standalone", "connect"])
def place(request, master, tmp_path_factory):
    """Where commands run, as an option and the environment: Connect needs neither Java nor settings here."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "standalone":
        yield ("--master", master), environment(directory) | {"LC_ALL": "C"}
        return
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    bare |= {"PATH": path_without_java(directory / "tools"), "PYTHONPATH": str(ROOT)}
    with connect_server(directory, master) as url:
        yield ("--remote", url), bare


def finished(*command, **how):
    """Run a program; its summary, and what it wrote on standard error."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=PATIENCE_S, **how
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


# First, for a Connect server keeps every core of the cluster until the last test has ended.
def test_commands_run_under_spark_submit_from_an_archive(master, local, tmp_path):
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in sorted((ROOT / PACKAGE).rglob("*")):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
    (tmp_path / "main.py").write_text(MAIN)
    # Without our tree on the path: what the driver imports is in the archive.
    settings = {name: value for name, value in environment(tmp_path).items() if name != "PYTHONPATH"}
    program = ("--py-files", tmp_path / "package.zip", tmp_path / "main.py", "pipeline")
    submit = (PROGRAMS / "spark-submit", "--master", master, *program)
    found, _ = finished(*submit, "report", *local.options("report", tmp_path), env=settings, cwd=tmp_path)
    assert (found, local.tables(tmp_path / "out")) == local.result("report")


@pytest.mark.parametrize("job", COMMANDS)
def test_a_command_on_a_cluster_does_what_it_does_here(job, place, local, tmp_path):
    where, settings = place
    command = (sys.executable, "-m", PACKAGE, "pipeline", job, *local.options(job, tmp_path), *where)
    found, said = finished(*command, env=settings, cwd=tmp_path)
    assert (found, local.tables(tmp_path / "out")) == local.result(job)
    assert [line for line in said.splitlines() if not any(slow in line for slow in SLOW)] == []
    assert {path.name for path in tmp_path.iterdir()} <= {"out", "state"}

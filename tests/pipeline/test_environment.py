"""What was set for another program does not reach Spark; and once all commands, with all of it set."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.environment import check_user, environment_of_spark, without_java_options
from purgatory_async.pipeline.shared import check_shared
from tests.pipeline.clusters import PATIENCE_S
from tests.pipeline.distributed.purgatory_oracle import Operation, Signal
from tests.pipeline.journals import MS, Node, live
from tests.pipeline.parquet_inputs import Inputs
from tests.source_tree import PACKAGE, ROOT

OF_JAVA = {
    "JAVA_TOOL_OPTIONS": "-Dfile.encoding=ISO-8859-1",
    "JDK_JAVA_OPTIONS": "-ea",
    "_JAVA_OPTIONS": "-Xmx9m",
}
OF_ANOTHER = {
    "HADOOP_CONF_DIR": "/away/hadoop",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "PYSPARK_PYTHON": "/away/python",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "SPARK_CONF_DIR": "/away/conf",
    "SPARK_DIST_CLASSPATH": "/away/*",
    "SPARK_LOCAL_HOSTNAME": "away",
    "YARN_CONF_DIR": "/away/yarn",
}
OWN = str(Path(pyspark.__file__).parent)


def test_here_nothing_of_another_spark_or_java_is_left():
    changes = environment_of_spark({**OF_JAVA, **OF_ANOTHER, "SPARK_HOME": "/away", "HOME": "/me"}, here=True)
    pythons = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert changes == dict.fromkeys(OF_JAVA | OF_ANOTHER) | pythons | {"SPARK_HOME": OWN, "LC_ALL": "C.UTF-8"}


def test_here_the_place_of_temporary_files_is_left():
    assert "SPARK_LOCAL_DIRS" not in environment_of_spark({"SPARK_LOCAL_DIRS": "/large"}, here=True)


def test_for_a_cluster_what_describes_it_is_left():
    changes = environment_of_spark({**OF_JAVA, **OF_ANOTHER}, here=False)
    driver = {"PYSPARK_PYTHON": "/away/python", "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert changes == dict.fromkeys(OF_JAVA) | driver | {"SPARK_HOME": OWN, "LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize(("version", "taken"), [(pyspark.__version__, True), ("3.5.1", False)])
def test_for_a_cluster_spark_is_the_user_s_if_python_fits(tmp_path, version, taken):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{version}.jar").touch()
    changes = environment_of_spark({"SPARK_HOME": str(tmp_path)}, here=False)
    assert changes.get("SPARK_HOME") == (None if taken else OWN)


def test_options_of_every_java_are_left_out():
    assert without_java_options({**OF_JAVA, "HOME": "/me"}) == {"HOME": "/me"}


def test_a_user_without_a_name_is_refused(monkeypatch):
    # The fault: Java took "?" for the home, and Spark ended with the stack of a library.
    def unknown(number):
        raise KeyError(number)

    check_user()
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(
        Refused, match=rf"^Java needs the name of user {os.getuid()}, got none; add one to /etc/passwd"
    ):
        check_user()


@pytest.mark.parametrize("encoding", ["ANSI_X3.4-1968", "ISO-8859-1"])
def test_a_java_that_has_no_name_for_a_place_is_refused(encoding, tmp_path):
    class Started:
        """A session whose Java others started, with their locale."""

        conf = {"spark.master": "local[1]"}  # noqa: RUF012

        def sql(self, _):
            return self

        def collect(self):
            return [(encoding,)]

    check_shared(Started(), {}, {"--out": tmp_path})
    with pytest.raises(
        Refused, match=f"^--out: .*ü has no name in {encoding}, .*; start Spark with LC_ALL=C.UTF-8"
    ):
        check_shared(Started(), {}, {"--out": tmp_path / "ü"})


EVERY_COMMAND = f"""
import sys
from {PACKAGE}.__main__ import main

for line in sys.stdin.read().splitlines():
    sys.argv[1:] = ["pipeline", *line.split(), "--master", "local[1]"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
"""


def strange(directory):
    """All of it, with names that exist and lead to what is away, and a locale without ü."""
    (directory / "spark-defaults.conf").write_text(
        "spark.eventLog.enabled true\nspark.eventLog.dir hdfs://away/log\n"
    )
    (directory / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://away</value></property></configuration>"
    )
    places = {name: str(directory) for name in ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR")}
    modes = {"MASTER": "spark://away:7077", "SPARK_REMOTE": "sc://away", "SPARK_CONNECT_MODE_ENABLED": "1"}
    return os.environ | OF_JAVA | OF_ANOTHER | places | modes | {"LC_ALL": "C", "TZ": "Asia/Kathmandu"}


@pytest.mark.slow
@pytest.mark.spark
def test_no_command_heeds_what_was_set_for_other_programs(tmp_path):
    place = tmp_path / "ü 北"
    node, inputs = Node(), Inputs(place)
    node.submit("op", 0)
    node.outcome("op", 50 * MS, latency=50 * MS)
    (place / "journal").mkdir()
    live(place / "journal", node.records)
    inputs.submit(Operation("op", ("a",), 1, 10, 20))
    inputs.signal(Signal("a", 15, 1))
    lines = [
        "workload --requests 10 --rate 1000 --profile low",
        "report --journal journal",
        "whatif --journal journal --timeout 1",
        "windows --journal journal --window 1",
        "stream --journal journal --window 1 --available-now --checkpoint ä",
        "distributed --operations operations --signals signals --time event --available-now --checkpoint ö --shards 1",
    ]
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND],
        input="\n".join(f"{line} --out é-{number}" for number, line in enumerate(lines)),
        env=strange(tmp_path) | {"PYTHONPATH": str(ROOT)},
        cwd=place,
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=3 * PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    counts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(counts) == len(lines)
    assert (counts[1]["operations"], counts[-1]["submitted"]) == (1, 1)
    made = {path.name for path in place.iterdir()}
    assert made == {"journal", "operations", "signals", "ä", "ö"} | {
        f"é-{number}" for number in range(len(lines))
    }

"""A session's settings, how it finds Spark and Java, and that it leaves nothing behind."""

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from purgatory_async.pipeline import Refused, session
from purgatory_async.pipeline.environment import EXECUTOR_LOCALE
from purgatory_async.pipeline.session import MEANING, SHORT, open_session, stateful_tasks


class FakeBuilder:
    """Records its settings and the environment in which it starts."""

    def __init__(self):
        self.settings, self.environment, self.stopped, self.scratch = {}, {}, False, Path()

    def appName(self, name):  # noqa: N802 - as Spark calls it
        self.settings["spark.app.name"] = name
        return self

    def config(self, map):  # noqa: A002 - as Spark calls it
        self.settings |= map
        return self

    def getOrCreate(self):  # noqa: N802 - as Spark calls it
        self.environment = dict(os.environ)
        self.scratch = Path(self.settings.get("spark.sql.warehouse.dir", "").removeprefix("file://"))
        return self

    def stop(self):
        self.stopped = True


@pytest.fixture
def builder(monkeypatch):
    """A fake builder in the place of Spark's, in a process without a session that Spark did not start."""
    fake = FakeBuilder()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "SparkSession", SparkSession)
    monkeypatch.setattr(SparkSession, "builder", fake)
    monkeypatch.setattr(session, "find_java_home", lambda *_: "/a/java")
    monkeypatch.setattr(session, "check_master", lambda *_: None)
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_by_default_spark_is_local_on_all_cores_and_private(builder):
    with open_session("job"):
        pass
    assert builder.settings.items() >= MEANING.items()
    assert builder.settings["spark.master"] == "local[*]"
    assert builder.settings["spark.driver.host"] == "127.0.0.1"
    assert builder.settings["spark.ui.enabled"] == "false"
    assert builder.settings["spark.sql.shuffle.partitions"] == str(2 * os.cpu_count())
    assert 0 < int(builder.settings["spark.driver.memory"].removesuffix("m")) <= 4096
    assert builder.stopped


def test_spark_stops_and_its_directory_goes_even_after_a_fault(builder):
    def fail():
        with open_session("job"):
            assert builder.scratch.parent.is_dir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert builder.stopped
    assert builder.scratch.is_relative_to(tempfile.gettempdir())
    assert not builder.scratch.parent.exists()


def test_the_environment_is_that_of_the_start_only(builder, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/their/java")
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    monkeypatch.setenv("SPARK_CONF_DIR", "/their/conf")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with open_session("job"):
        assert os.environ["JAVA_HOME"] == "/their/java"
        assert os.environ["SPARK_CONF_DIR"] == "/their/conf"
        assert "SPARK_LOCAL_IP" not in os.environ
    assert builder.environment["JAVA_HOME"] == "/a/java"
    assert builder.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert builder.environment["PYSPARK_PYTHON"] == sys.executable
    assert "SPARK_CONF_DIR" not in builder.environment


@pytest.mark.parametrize("where", [{}, {"master": "spark://h:7077"}])
def test_only_options_choose_between_master_and_server(builder, monkeypatch, where):
    monkeypatch.setenv("SPARK_REMOTE", "sc://away")
    monkeypatch.setenv("MASTER", "spark://away:7077")
    with open_session("job", **where):
        assert "SPARK_REMOTE" not in os.environ  # for as long as a session lives, as Spark asks for it again
    assert not {"SPARK_REMOTE", "MASTER"} & builder.environment.keys()
    assert os.environ["SPARK_REMOTE"] == "sc://away"


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h:443"])
def test_a_cluster_s_driver_is_not_bound_to_this_machine(builder, master):
    with open_session("job", master=master):
        pass
    assert builder.settings["spark.master"] == master
    assert not {"spark.driver.host", "spark.driver.memory", "spark.sql.shuffle.partitions"} & set(
        builder.settings
    )


@pytest.mark.parametrize(
    ("master", "set_to", "tasks"),
    [
        ("local[1]", "2", 1),
        ("local[8]", "16", 4),
        ("spark://h:7077", "200", 200),
        ("local-cluster[4,1,1024]", "12", 12),
    ],
)
def test_stages_with_state_follow_local_cores_or_the_setting(master, set_to, tasks):
    class Session:
        conf = {"spark.master": master, "spark.sql.shuffle.partitions": set_to}  # noqa: RUF012

    assert stateful_tasks(Session) == tasks


@pytest.mark.parametrize(("master", "quick"), [("local[2]", True), ("spark://h:7077", False)])
def test_a_short_job_starts_a_quick_spark_on_this_machine_only(builder, master, quick):
    with open_session("job", master=master, short=True):
        pass
    assert ("-XX:TieredStopAtLevel=1" in builder.settings["spark.driver.extraJavaOptions"]) == quick
    assert (builder.settings.items() >= SHORT.items()) == quick


def test_further_options_of_java_are_added_to_ours(builder):
    with open_session("job", java_options="-XX:+UseSerialGC"):
        pass
    ours, added = builder.settings["spark.driver.extraJavaOptions"].split()
    assert ours.startswith("-Dlog4j2.configurationFile=")
    assert added == "-XX:+UseSerialGC"


def test_settings_of_spark_submit_are_kept(builder, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "find_java_home", None)
    with open_session("job"):
        pass
    assert builder.settings == {"spark.app.name": "job"} | EXECUTOR_LOCALE | MEANING


def test_a_connect_session_sets_no_machine_and_needs_no_java(builder, monkeypatch):
    monkeypatch.setattr(session, "find_java_home", None)
    monkeypatch.setattr(session, "check_connect", lambda _: None)
    remote = "sc://h:15002/;token=secret"
    with open_session("job", remote=remote):
        pass
    assert builder.settings == {"spark.app.name": "job", "spark.remote": remote} | MEANING


@pytest.mark.parametrize("where", [{"master": "spark://h:7077"}, {"remote": "sc://h:1/;token=secret"}])
def test_a_start_that_fails_is_one_line_with_the_reason(builder, monkeypatch, where):
    def fail():
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(session, "check_connect", lambda _: None)
    monkeypatch.setattr(builder, "getOrCreate", fail)
    with pytest.raises(
        Refused, match=r"Spark does not start on s\w+://h:\d+: .*JAVA_GATEWAY_EXITED"
    ) as refused:
        open_session("job", **where).__enter__()
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("token", "reported"), [(b"token", False), (b"wrong", True)])
def test_of_accumulators_only_the_end_of_java_is_not_reported(builder, capsys, token, reported):
    # The fault: a signal to the process group ended Java first, and a stack of 23 lines hid the job's own line.
    with (
        open_session("job"),
        AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, "token") as server,
    ):
        with socket.create_connection(server.server_address) as java:
            java.sendall(token)
        server.handle_request()
    assert ("Traceback" in capsys.readouterr().err) == reported


def test_a_session_that_is_there_is_lent_and_left_running(spark):
    with open_session("another", settings={"spark.sql.shuffle.partitions": "99"}) as lent:
        assert lent is spark
    assert spark.range(3).count() == 3
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_the_session_sets_integers_instants_and_state_for_jobs(spark):
    assert {name: spark.conf.get(name) for name in MEANING} == MEANING

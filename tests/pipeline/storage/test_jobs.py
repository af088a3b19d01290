"""Each command with its journal and its results in a store finds what it finds on this machine."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_async.cli.pipeline import run
from purgatory_async.pipeline.jobs import report, stream, whatif, windows
from purgatory_async.pipeline.jobs.whatif import Wanted
from purgatory_async.pipeline.output import staged
from purgatory_async.pipeline.source.tables import read_journal
from tests.pipeline.journals import MS, Node, append, live, rotated
from tests.pipeline.storage.conftest import downloaded, uploaded
from tests.source_tree import PACKAGE, ROOT

SHAPE = ("--requests", "200", "--rate", "1000", "--profile", "low", "--no-spark")


@pytest.fixture
def journal(tmp_path):
    """A journal with rotated and live segments of two nodes, a gap, damage and an anomaly."""
    directory = tmp_path / "journal"
    directory.mkdir()
    one, other = Node(), Node(node="n2")
    for number in range(40):
        one.submit(f"op{number}", number * MS, keys=("a", f"k{number % 3}"))
        one.signal("a", number * MS)
        if number % 2:
            one.outcome(f"op{number}", (number + 5) * MS, keys=("a", f"k{number % 3}"), latency=5 * MS)
    other.submit("late", 0)
    other.skip()
    other.outcome("late", 201 * MS, "expired", latency=200 * MS, lateness_ns=MS)
    other.outcome("ghost", 202 * MS)
    rotated(directory, one.records[:50])
    live(directory, one.records[50:], number=2)
    append(live(directory, other.records, node="n2"), b"no record\n")
    return directory


@pytest.fixture
def workers(spark, bucket, s3_environment, monkeypatch):
    """The session, whose workers reach the store as well."""
    for name, value in s3_environment.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    return spark


def results(files):
    """What a run wrote: its Parquet tables in one order, and its other files as they are."""
    tables, others = {}, {}
    for name, data in sorted(files.items()):
        if name.endswith(".parquet"):
            tables.setdefault(name.rpartition("/")[0], []).append(pq.read_table(pa.BufferReader(data)))
        elif not name.rpartition("/")[2].startswith(("_", ".")):
            others[name] = data
    rows = {
        name: sorted(map(repr, pa.concat_tables(parts, promote_options="permissive").to_pylist()))
        for name, parts in tables.items()
    }
    return rows, others


def files_in(directory):
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def with_both(job, journal, bucket, tmp_path):
    """Run a job here and in the store; its summaries and results."""
    found = []
    for source, out in (
        (journal, tmp_path / "out"),
        (uploaded(journal, bucket / "journal"), bucket / "deep" / "out"),
    ):
        with staged(out) as stage:
            summary = job(source, stage)
        found.append((summary, results(files_in(out) if out == tmp_path / "out" else downloaded(out))))
    return found


def test_a_report_in_a_store_is_the_same(workers, journal, bucket, tmp_path):
    here, there = with_both(lambda source, out: report.run(source, out, workers), journal, bucket, tmp_path)
    assert here[0]["operations"] == 41
    assert (here[0]["anomalies"], here[0]["quarantined"], len(here[0]["missing"])) == (1, 1, 2)
    assert there[0] == here[0]
    assert there[1][0] == here[1][0]
    assert set(there[1][1]) == set(here[1][1]) >= {"report.html", "summary.json", "figures/pending.svg"}
    assert there[1][1]["summary.json"] == here[1][1]["summary.json"]


def test_windows_in_a_store_are_the_same(workers, journal, bucket, tmp_path):
    here, there = with_both(
        lambda source, out: windows.run(source, out, 10 * MS, workers), journal, bucket, tmp_path
    )
    assert here[0]["rows"] > 10
    assert there == here


def test_a_whatif_in_a_store_is_the_same(workers, journal, bucket, tmp_path):
    wanted = Wanted((0.003, 0.2), (0.001,), (256,))
    here, there = with_both(
        lambda source, out: whatif.run(source, wanted, out, workers), journal, bucket, tmp_path
    )
    assert {line["expired"] for line in here[0]["settings"]} != {0}
    assert there == here


def test_spark_reads_all_records_of_a_store(workers, journal, bucket):
    place = uploaded(journal, bucket / "journal")
    here, there = (
        sorted(read_journal(workers, source).records.collect(), key=repr) for source in (journal, place)
    )
    assert len(here) == 103
    assert there == here


def test_a_stream_follows_a_journal_in_a_store(workers, journal, bucket, tmp_path):
    rows = []
    for name, source in (("here", journal), ("there", uploaded(journal, bucket / "journal"))):
        plan = stream.Plan(
            journal=source,
            out=tmp_path / name / "out",
            checkpoint=tmp_path / name / "checkpoint",
            window_ns=10 * MS,
            available_now=True,
        )
        assert stream.run(plan, workers)["rows"] > 10
        rows.append(results(files_in(plan.out))[0])
    assert rows[1] == rows[0]


def test_a_workload_without_spark_goes_to_a_store(bucket, tmp_path, capsys):
    summaries = []
    for out in (tmp_path / "out", bucket / "out"):
        assert run(["pipeline", "workload", "--out", str(out), *SHAPE]) == 0
        summaries.append(json.loads(capsys.readouterr().out))
    assert summaries[1] == summaries[0]
    stored = downloaded(bucket / "out")
    assert stored.pop("_SUCCESS") == b""
    assert stored == files_in(tmp_path / "out")
    assert run(["pipeline", "workload", "--out", str(bucket / "out"), *SHAPE]) == 2
    assert "is not empty, and nothing in it is overwritten" in capsys.readouterr().err
    assert downloaded(bucket / "out") == stored | {"_SUCCESS": b""}


@pytest.mark.slow
def test_workers_of_a_command_write_to_a_store(bucket, tmp_path):
    command = (sys.executable, "-m", PACKAGE, "pipeline", "workload", *SHAPE[:-1], "--out")
    said = [
        subprocess.run([*command, str(out), *more], check=True, capture_output=True, text=True, cwd=ROOT)
        for out, *more in ((tmp_path / "out", "--no-spark"), (bucket / "out", "--master", "local[2]"))
    ]
    assert said[1].stdout.splitlines()[-1] == said[0].stdout.splitlines()[-1]
    stored = downloaded(bucket / "out")
    assert stored.pop("_SUCCESS") == b""
    assert stored == files_in(tmp_path / "out")


@pytest.mark.parametrize("option", ["--out", "--checkpoint", "--operations", "--signals"])
def test_a_place_that_is_renamed_or_locked_must_be_local(option, capsys, tmp_path):
    places = {name: str(tmp_path) for name in ("--out", "--checkpoint", "--operations", "--signals")}
    words = [word for pair in (places | {option: "s3a://bucket/x"}).items() for word in pair]
    assert run(["pipeline", "distributed", *words, "--time", "event"]) == 2
    assert "must be a local or mounted directory, got 's3a://bucket/x'" in capsys.readouterr().err

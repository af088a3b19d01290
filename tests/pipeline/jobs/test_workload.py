"""The workload as a command: the same rows from Spark and without, and one line for whatever is wrong."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from purgatory_async.cli.pipeline import run
from purgatory_async.pipeline.jobs import workload as job
from purgatory_async.pipeline.workload import BLOCK, PROFILES, SCHEMA, Workload

THREE_BLOCKS = Workload(
    requests=2 * BLOCK + 5, rate=1e4, p50=0.02, p75=0.06, timeout=0.2, keys=3, key_space=1000, seed=1
)
SHAPE = ["--requests", "100", "--rate", "1000", "--profile", "low"]


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    """Run the command in an empty directory; its exit code, output and lines of complaint."""
    monkeypatch.chdir(tmp_path)

    def tell(*arguments):
        code = run(["pipeline", "workload", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.splitlines()

    return tell


def everything_in(directory):
    """Names of all files, hidden ones too."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_any_partitioning_makes_the_same_rows_as_no_spark(spark, tmp_path):
    summaries, tables = [], []
    for name, parts, session in (
        ("one", 1, spark),
        ("three", 3, spark),
        ("eight", 8, spark),
        ("none", 2, None),
    ):
        out = tmp_path / name
        out.mkdir()
        summaries.append(job.run(THREE_BLOCKS, out, parts, session))
        files = sorted(out.glob("*.parquet"))
        assert len(files) == min(parts, THREE_BLOCKS.blocks)
        tables.append(pq.read_table(files))
    assert all(summary == summaries[0] for summary in summaries)
    assert all(table == tables[0] for table in tables)
    assert spark.read.parquet(f"{tmp_path}/three/*.parquet").count() == THREE_BLOCKS.requests


def test_the_command_writes_parquet_manifest_and_a_summary(cli, tmp_path):
    code, out, err = cli("--out", "made", *SHAPE, "--no-spark", "--keys", 2, "--seed", 2**64 - 1)
    assert (code, err) == (0, [])
    summary = json.loads(out.splitlines()[-1])
    assert set(summary) == {"requests", "checksum", "expected_timeout_rate"}
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text())
    assert manifest.items() >= summary.items()
    assert (manifest["seed"], manifest["p50"], manifest["p75"]) == (2**64 - 1, *PROFILES["low"])
    assert everything_in(tmp_path) == {"made", "made/manifest.json", "made/part-00000.parquet"}
    assert pq.read_schema(tmp_path / "made" / "part-00000.parquet").names == SCHEMA.names


def test_latencies_of_one_s_own_replace_the_profile_s(cli):
    rates = [
        json.loads(cli("--out", name, "--requests", 9, "--rate", 1, *latencies, "--no-spark")[1])
        for name, latencies in {
            "named": ["--profile", "low"],
            "given": ["--p50", "0.02", "--p75", "0.06"],
            "median": ["--profile", "low", "--p50", "0.03"],
        }.items()
    ]
    named, own, median = (found["expected_timeout_rate"] for found in rates)
    assert named == own > median


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "made"], "--requests"),
        (["--out", "made", *SHAPE[:4]], "--profile must be one of low, high"),
        (["--out", "made", *SHAPE[:4], "--p50", "1"], "--profile must be one of low, high"),
        (["--out", "made", *SHAPE[:5], "middling"], "'middling'"),
        (["--out", "made", *SHAPE, "--requests", "many"], "'many'"),
        (["--out", "made", *SHAPE, "--requests", "0"], "--requests must be from 1 "),
        (["--out", "made", *SHAPE, "--rate", "nan"], "got nan"),
        (["--out", "made", *SHAPE, "--timeout", "-1"], "--timeout must be from "),
        (["--out", "made", *SHAPE, "--p75", "0.01"], "--p75 must be above p50"),
        (["--out", "made", *SHAPE, "--keys", "9", "--key-space", "8"], "got 9 of 8"),
        (["--out", "made", *SHAPE, "--key-space", "0"], "--key-space must be from 1 "),
        (["--out", "made", *SHAPE, "--seed", "-1"], "--seed must be from 0 "),
        (["--out", "made", *SHAPE, "--partitions", "0"], "--partitions"),
        (["--out", "made", *SHAPE, "--no-spark", "--master", "local"], "--no-spark and --master"),
        (["--out", "made", *SHAPE, "--master", "sideways"], "'sideways'"),
        (["--out", "made", *SHAPE, "--remote", "http://h"], "'http://h'"),
        (["--out", "made", *SHAPE, "--master", "local", "--remote", "sc://h"], "exclude each other"),
        (["--out", "made", *SHAPE, "--remote", "sc://h", "--master", "local"], "exclude each other"),
        (["--out", "", *SHAPE], "--out"),
        (["--out", "file", *SHAPE], "file must be a directory, got a file"),
        (["--out", "full", *SHAPE], "full is not empty"),
        (["--out", "file/under", *SHAPE], "file is not a writable directory"),
        (["--out", "made", *SHAPE, "--partitions", "3", "more"], "more"),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_before_spark_starts(cli, tmp_path, monkeypatch, arguments, said):
    monkeypatch.setattr("purgatory_async.pipeline.session.open_session", None)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".hidden").write_text("mine")
    before = sorted(path.name for path in Path.cwd().rglob("*"))
    code, out, [line] = cli(*arguments)
    assert (code, out) == (2, "")
    assert line.startswith("purgatory: ")
    assert said in line
    assert sorted(path.name for path in Path.cwd().rglob("*")) == before


def test_a_run_that_fails_leaves_nothing_behind(cli, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job, "checksum", fail)
    with pytest.raises(OSError, match="No space"):
        cli("--out", "made", *SHAPE, "--no-spark")
    assert everything_in(tmp_path) == set()


def test_help_has_an_example(cli):
    code, out, _ = cli("--help")
    assert code == 0
    assert "\n  Example:\n    purgatory pipeline workload --out" in out

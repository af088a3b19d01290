"""What ``distributed`` refuses before it starts Spark, and that it leaves everything as it was."""

import dataclasses
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.checkpoints import claimed_checkpoint
from purgatory_async.pipeline.jobs.distributed import Plan, command
from tests.pipeline.distributed.purgatory_oracle import Operation, Signal
from tests.pipeline.parquet_inputs import OPERATIONS, SIGNALS, Inputs


@pytest.fixture
def inputs(tmp_path):
    made = Inputs(tmp_path)
    made.submit(Operation("op", ("a", "b"), 1, 10, 20))
    made.signal(Signal("a", 15, 1))
    return made


@pytest.fixture
def plan(tmp_path, inputs):
    return Plan(
        operations=inputs.operations,
        signals=inputs.signals,
        out=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        time="event",
    )


def claim(plan):
    with claimed_checkpoint(plan.checkpoint, plan.identity):
        pass


def with_column(schema, name, values):
    at = schema.get_field_index(name)
    columns = {"op_id": ["op"], "keys": [["a"]], "needed": [1], "submit_ns": [1], "timeout_ns": [1]} | {
        "key": ["a"],
        "at_ns": [1],
        "n": [1],
    }
    table = pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
    return table.remove_column(at) if values is None else table.set_column(at, name, values)


def test_inputs_that_are_right_are_taken(plan):
    plan.check()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("needed", pa.array([1])),
        ("submit_ns", pa.array([1], pa.int32())),
        ("op_id", pa.array(["op"], pa.large_string())),
        ("keys", pa.array([["a"]], pa.large_list(pa.large_string()))),
    ],
    ids=["int64 needed", "int32 instant", "large string", "large list"],
)
def test_another_width_of_the_same_type_is_taken(plan, column, values):
    # pyarrow and pandas write int64 by default.
    pq.write_table(with_column(OPERATIONS, column, values), plan.operations / "more.parquet")
    plan.check()


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        ("needed", None, r"more\.parquet has no column 'needed'; it needs op_id string, keys array<string>"),
        ("keys", pa.array(["a"]), r"more\.parquet: column 'keys' must be array<string>, got string"),
        ("submit_ns", pa.array([1.5]), r"column 'submit_ns' must be long, got double"),
        ("submit_ns", pa.array([1], pa.timestamp("ns")), r"must be long, got timestamp\[ns\]"),
        (
            "timeout_ns",
            pa.array([None], pa.int64()),
            r"column 'timeout_ns' has 1 nulls; every row needs a value",
        ),
    ],
    ids=["missing", "no list", "no integer", "a timestamp", "null"],
)
def test_a_bad_operations_file_is_named_with_its_column(plan, column, values, complaint):
    pq.write_table(with_column(OPERATIONS, column, values), plan.operations / "more.parquet")
    with pytest.raises(Refused, match=f"--operations .*{complaint}"):
        plan.check()


def test_a_signals_file_without_its_column_is_named(plan):
    pq.write_table(with_column(SIGNALS, "n", None), plan.signals / "more.parquet")
    with pytest.raises(Refused, match=r"--signals .*more\.parquet has no column 'n'"):
        plan.check()


def test_a_file_that_is_no_parquet_is_named(plan):
    (plan.signals / "notes.txt").write_text("key,at_ns,n\n")
    with pytest.raises(Refused, match=r"--signals .*notes\.txt cannot be read as Parquet"):
        plan.check()


@pytest.mark.parametrize("name", [".unfinished.parquet", "_SUCCESS"])
def test_what_spark_passes_over_is_not_looked_at(plan, name):
    (plan.operations / name).write_text("half a fi")
    plan.check()


@pytest.mark.parametrize(
    ("setting", "value"), [("shards", 16), ("time", "processing"), ("delay", 1.5), ("keep", 1.0)]
)
def test_a_checkpoint_is_not_continued_with_another_setting(plan, setting, value):
    # Its state would be looked for in other shards, or mean something else.
    claim(plan)
    plan.check()
    message = (
        f"was made with --{setting} {getattr(plan, setting)}, not {value}; continue with that, or begin anew"
    )
    with pytest.raises(Refused, match=re.escape(message)):
        dataclasses.replace(plan, **{setting: value}).check()


def test_a_checkpoint_is_not_continued_with_another_directory(plan, tmp_path):
    # Spark would read all files of it as new, and every operation would end twice.
    claim(plan)
    (tmp_path / "copy").mkdir()
    with pytest.raises(Refused, match=r"was made with --operations .*operations, not .*copy"):
        dataclasses.replace(plan, operations=tmp_path / "copy").check()


def test_a_checkpoint_of_an_earlier_version_is_refused(plan):
    # Spark would look for sources that its query no longer has, and say so in thirty lines.
    with claimed_checkpoint(plan.checkpoint, dataclasses.replace(plan.identity, format=1)):
        pass
    message = r"must be of format 2, got 1; finish it with the version that made it, or begin anew"
    with pytest.raises(Refused, match=message):
        plan.check()


def test_a_checkpoint_is_held_by_one_run_at_a_time(plan):
    # Two would read the same files, and each take the other's batches for its own.
    with (
        claimed_checkpoint(plan.checkpoint, plan.identity),
        pytest.raises(Refused, match="is in use by another run"),
        claimed_checkpoint(plan.checkpoint, plan.identity),
    ):
        pass
    claim(plan)


def test_an_impossible_checkpoint_is_refused_with_a_remedy(plan, tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(Refused, match=r"file.* cannot be made: Not a directory; name another directory"),
        claimed_checkpoint(tmp_path / "file" / "checkpoint", plan.identity),
    ):
        pass


def test_outcomes_are_not_continued_with_a_new_checkpoint(plan):
    # Spark takes its first batches for those in the list of the old one, and writes none of them.
    (plan.out / "outcomes").mkdir(parents=True)
    with pytest.raises(Refused, match=r"is not empty and --checkpoint .* is new"):
        plan.check()


def test_a_directory_with_something_else_in_it_is_no_checkpoint(plan):
    plan.checkpoint.mkdir()
    (plan.checkpoint / "offsets").mkdir()
    with pytest.raises(Refused, match="was not made by this command"):
        plan.check()


def test_a_file_is_no_checkpoint(plan):
    plan.checkpoint.write_text("")
    with pytest.raises(Refused, match="is not a directory"):
        plan.check()


def test_a_checkpoint_whose_settings_are_damaged_is_refused(plan):
    claim(plan)
    for content in ('{"shards": ', "", "[]", "{}"):
        (plan.checkpoint / "purgatory.json").write_text(content)
        with pytest.raises(
            Refused, match=r"purgatory\.json is damaged: .*; begin anew with another --checkpoint"
        ):
            plan.check()


def test_an_emptied_start_is_written_again(plan):
    # Spark would find no Parquet in it.
    claim(plan)
    (start,) = (plan.checkpoint / "starts").iterdir()
    start.write_bytes(b"")
    claim(plan)
    assert pq.read_table(start).num_rows == 0


def test_what_a_running_query_writes_is_not_taken_for_damage(plan):
    with claimed_checkpoint(plan.checkpoint, plan.identity):
        (plan.checkpoint / "commits").mkdir()
        (plan.checkpoint / "commits" / "0").touch()
        with pytest.raises(Refused, match="is in use by another run"):
            plan.check()


def test_a_damaged_checkpoint_is_refused_before_its_inputs(plan):
    claim(plan)
    (plan.checkpoint / "metadata").touch()
    with pytest.raises(Refused, match=r"checkpoint/metadata is empty; remove it"):
        plan.check()


def test_a_run_killed_while_it_wrote_its_settings_is_begun_again(plan):
    plan.checkpoint.mkdir()
    (plan.checkpoint / ".purgatory.json").write_text('{"shards": ')
    plan.check()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--time", "wall"], "'wall' is not one of 'event', 'processing'"),
        (["--time", "event", "--delay", "nan"], "must be from 0.0 to 315360000 seconds, got nan"),
        (["--time", "event", "--trigger", "0"], "must be from 0.001"),
        (["--time", "event", "--shards", "0"], "0 is not in the range 1<=x<=100000"),
        (["--time", "event", "--checkpoint", ""], "must name a directory, got ''"),
        ([], "Missing option '--time'"),
    ],
)
def test_a_wrong_option_is_named_with_its_bounds(inputs, tmp_path, options, complaint):
    arguments = ["--operations", inputs.operations, "--signals", inputs.signals, "--out", tmp_path / "out"]
    arguments += ["--checkpoint", tmp_path / "checkpoint", *options]
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exit_code == 2
    assert complaint in result.output
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("option", ["--out", "--checkpoint"])
def test_a_directory_that_cannot_be_made_is_refused(inputs, tmp_path, option):
    (tmp_path / "file").touch()
    places = {
        "--out": tmp_path / "out",
        "--checkpoint": tmp_path / "checkpoint",
        option: tmp_path / "file" / "a",
    }
    places |= {"--operations": inputs.operations, "--signals": inputs.signals, "--time": "event"}
    result = CliRunner().invoke(command, [str(word) for pair in places.items() for word in pair])
    assert isinstance(result.exception, Refused)
    assert str(result.exception).startswith(f"{option} {tmp_path / 'file' / 'a'} cannot be made: ")


def test_help_says_what_it_gives_and_what_it_does_not():
    text = CliRunner().invoke(command, ["--help"]).output
    assert "survive any crash" in text
    assert "does not give milliseconds" in " ".join(text.split())

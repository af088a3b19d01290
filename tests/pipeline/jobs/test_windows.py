"""The commands `windows` and `stream` as far as they go before Spark starts, and what `windows` writes."""

import pyarrow.parquet as pq
import pytest
from click import ClickException
from click.testing import CliRunner

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.jobs import report, stream, windows
from tests.pipeline.journals import MS, Node, append, live, rotated


def refused(command, *arguments):
    """The sentence with which a command does not begin."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], standalone_mode=False)
    assert result.exception is not None
    return (
        result.exception.format_message()
        if isinstance(result.exception, ClickException)
        else str(result.exception)
    )


@pytest.fixture
def journal(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir()
    node = Node()
    node.submit("op", 0, keys=("a", "b"))
    node.outcome("op", 1500 * MS, keys=("a", "b"), latency=1500 * MS)
    live(directory, node.records)
    return directory


# A width that is not whole nanoseconds would be another width than was asked for.
@pytest.mark.parametrize("width", ["0", "-1", "nan", "inf", "one", "", "1e-10", "1e99"])
def test_a_width_that_cannot_be_is_refused(journal, tmp_path, width):
    assert "must be a positive number of seconds" in refused(
        windows.command, "--journal", journal, "--out", tmp_path / "out", "--window", width
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [windows.command, report.command], ids=["windows", "report"])
@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        (
            ["--from", "2026-11-25"],
            "'--from': must be an ISO 8601 time with a zone, such as 2026-11-25T00:00Z",
        ),
        (["--to", "2026-11-25T00:00:00"], "'--to': must be an ISO 8601 time with a zone"),
        (["--from", "1790000000000"], "from 1677 to 2262, got '1790000000000'"),
        (["--from", "2026-11-25T01:00+01:00", "--to", "2026-11-25T00:00Z"], "--to must be after --from"),
        (["--to", "7", "--from", "8.5"], "--to must be after --from"),
    ],
)
def test_a_range_that_cannot_be_is_refused(journal, tmp_path, command, limits, complaint):
    window = ["--window", 1] if command is windows.command else []
    assert complaint in refused(command, "--journal", journal, "--out", tmp_path / "out", *window, *limits)
    assert not (tmp_path / "out").exists()


# Found in the middle of the work, it would cost all that was done before.
def test_a_parquet_file_that_is_none_is_refused_by_name(journal, tmp_path):
    (journal / "run.n2.000001.parquet").write_bytes(b"no Parquet")
    for command, more in ((windows.command, []), (stream.command, ["--checkpoint", tmp_path / "c"])):
        said = refused(command, "--journal", journal, "--out", tmp_path / "out", "--window", 1, *more)
        assert "run.n2.000001.parquet is not a Parquet file" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda table: table.drop_columns(["seq", "kind"]), "lacks seq, kind"),
        (
            lambda table: table.set_column(0, "n", [["one"] * table.num_rows]),
            "column n must be int, got string",
        ),
    ],
)
def test_a_parquet_file_of_something_else_is_refused_by_name(journal, tmp_path, change, complaint):
    node = Node()
    node.signal("a", 0)
    path = rotated(journal, node.records, 2)
    table = pq.read_table(path).drop_columns(["n"])
    pq.write_table(change(table), path)
    said = refused(windows.command, "--journal", journal, "--out", tmp_path / "out", "--window", 1)
    assert path.name in said
    assert complaint in said


def test_results_that_are_there_are_not_overwritten(journal, tmp_path):
    (tmp_path / "mine").write_text("precious")
    assert "is not empty" in refused(windows.command, "--journal", journal, "--out", tmp_path, "--window", 1)


def test_windows_are_written_with_what_was_damaged(spark, journal, tmp_path):
    append(journal / "run.n1.000001.jsonl", b"{}\ntorn")
    (tmp_path / "out").mkdir()
    assert windows.run(journal, tmp_path / "out", 1000 * MS, spark) == {"windows": 2, "rows": 4}
    rows = spark.read.parquet(str(tmp_path / "out" / "windows")).orderBy("window_start_ns", "key").collect()
    assert [(row.key, row.submitted, row.completed) for row in rows] == [
        ("a", 1, 0),
        ("b", 1, 0),
        ("a", 0, 1),
        ("b", 0, 1),
    ]
    (damage,) = spark.read.parquet(str(tmp_path / "out" / "quarantine")).collect()
    assert (damage.file, damage.reason) == ("run.n1.000001.jsonl", "Object missing required field `kind`")


def test_a_stream_needs_whole_positive_numbers_of_files(journal, tmp_path):
    arguments = ("--journal", journal, "--out", tmp_path / "o", "--checkpoint", tmp_path / "c", "--window", 1)
    assert "files-per-batch" in refused(stream.command, *arguments, "--files-per-batch", 0)


def test_a_stream_of_no_journal_is_refused_unless_it_waits(monkeypatch, tmp_path):
    # The fault: a mistyped directory is followed for days, and nothing ever comes.
    (tmp_path / "empty").mkdir()
    arguments = ["--journal", tmp_path / "empty", "--out", tmp_path / "o", "--checkpoint", tmp_path / "c"]
    said = refused(stream.command, *arguments, "--window", 1)
    assert "must have segments of a journal" in said
    assert "or add --wait" in said

    def survey(_):
        """Stop before Spark starts."""
        raise Refused("surveyed")

    monkeypatch.setattr(stream, "survey", survey)
    assert refused(stream.command, "--wait", *arguments, "--window", 1) == "surveyed"


def test_a_stream_without_a_checkpoint_is_refused(journal, tmp_path):
    assert "--checkpoint" in refused(
        stream.command, "--journal", journal, "--out", tmp_path / "o", "--window", 1
    )

"""Checkpoint and results of a stream: only those that belong together, and one stream at a time."""

import pytest
from click.testing import CliRunner

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.checkpoints import check_pair, claimed
from purgatory_async.pipeline.jobs import stream

SECOND = 1_000_000_000


@pytest.fixture
def pair(tmp_path):
    """A checkpoint and results with which a stream has been at work."""
    places = tmp_path / "checkpoint", tmp_path / "out"
    with claimed(*places, SECOND):
        (places[0] / "state").mkdir()
    return places


def test_a_stream_continues_with_both(pair):
    check_pair(*pair, SECOND)
    with claimed(*pair, SECOND):
        pass


# Batches are numbered by the checkpoint: with another one's results, they would replace files of other records.
def test_results_of_another_checkpoint_are_refused(pair, tmp_path):
    with claimed(tmp_path / "c2", tmp_path / "o2", SECOND):
        pass
    for checkpoint, out in (
        (pair[0], tmp_path / "o2"),
        (tmp_path / "c2", pair[1]),
        (tmp_path / "c3", pair[1]),
    ):
        with pytest.raises(Refused, match=r"--out .* (does not belong|belongs to another)"):
            check_pair(checkpoint, out, SECOND)


# The results of earlier batches would be missing, unnoticed.
def test_a_checkpoint_refuses_a_new_place_for_its_results(pair, tmp_path):
    with pytest.raises(Refused, match="has results elsewhere"):
        check_pair(pair[0], tmp_path / "new", SECOND)


def test_killed_before_the_first_batch_a_stream_begins_again(tmp_path):
    with claimed(tmp_path / "c", tmp_path / "o", SECOND):
        pass
    (tmp_path / "o" / ".purgatory-stream.json").unlink()
    with claimed(tmp_path / "c", tmp_path / "o", SECOND):
        check_pair(tmp_path / "c", tmp_path / "o", SECOND)


def test_windows_of_a_checkpoint_keep_their_width(pair):
    with pytest.raises(Refused, match=r"was made with --window 1, not 60"):
        check_pair(*pair, 60 * SECOND)


@pytest.mark.parametrize("option", ["--checkpoint", "--out"])
def test_directories_of_something_else_are_refused_untouched(tmp_path, option):
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "file").write_text("precious")
    places = {"--checkpoint": tmp_path / "c", "--out": tmp_path / "o"} | {option: strange}
    with pytest.raises(Refused, match=option):
        check_pair(*places.values(), SECOND)
    assert [path.name for path in strange.iterdir()] == ["file"]


def test_two_streams_do_not_work_on_one_checkpoint(pair):
    with (
        claimed(*pair, SECOND),
        pytest.raises(Refused, match="in use by another stream"),
        claimed(*pair, SECOND),
    ):
        pass


def test_what_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="not a directory"):
        check_pair(tmp_path / "file", tmp_path / "o", SECOND)
    with (
        pytest.raises(Refused, match="cannot be made"),
        claimed(tmp_path / "file" / "c", tmp_path / "o", SECOND),
    ):
        pass


@pytest.mark.parametrize("content", ["", "[]", '{"id": 7}', "\0"])
def test_a_damaged_claim_is_copied_from_the_other(pair, content):
    claims = [place / ".purgatory-stream.json" for place in pair]
    for path, other in (claims, claims[::-1]):
        whole = path.read_text()
        path.write_text(content)
        with pytest.raises(Refused, match=f"{path} is damaged: .*; copy {other} over it"):
            check_pair(*pair, SECOND)
        path.write_text(whole)
    check_pair(*pair, SECOND)


def test_a_stream_s_damaged_files_are_refused_before_spark(pair, tmp_path):
    (tmp_path / "run.n1.000001.jsonl").touch()
    (pair[0] / "query").mkdir()
    (pair[0] / "query" / "metadata").touch()
    options = ["--journal", tmp_path, "--checkpoint", pair[0], "--out", pair[1], "--window", "1"]
    result = CliRunner().invoke(stream.command, [str(option) for option in options])
    assert isinstance(result.exception, Refused)
    assert "query/metadata is empty; remove it" in str(result.exception)

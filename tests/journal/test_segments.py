"""The files of a journal: found by their names, each once."""

from pathlib import Path

import pytest

from purgatory_async.journal import segments
from purgatory_async.journal.segments import Segment, list_segments

FIRST = "run.node.000001"
SECOND = "run.node.000002"


def test_segments_are_found_by_run_node_and_number_only(tmp_path):
    names = [f"{SECOND}.jsonl", f"{FIRST}.parquet", "other.a.000010.jsonl", "other.a.000009.jsonl"]
    for name in (*names, f".{SECOND}.parquet", "_x.n.000001.jsonl", "notes.txt", "run.000001.jsonl", ".lock"):
        (tmp_path / name).touch()
    found = list_segments(tmp_path)
    assert [segment.path.name for segment in found] == [
        "other.a.000009.jsonl",
        "other.a.000010.jsonl",
        f"{FIRST}.parquet",
        f"{SECOND}.jsonl",
    ]
    assert [segment.live for segment in found] == [True, True, False, True]


def test_of_a_segment_in_both_forms_the_parquet_counts(tmp_path):
    for ending in ("jsonl", "parquet"):
        (tmp_path / f"{FIRST}.{ending}").touch()
    assert [segment.path.suffix for segment in list_segments(tmp_path)] == [".parquet"]


@pytest.mark.parametrize("missed_by", [0, 1])
def test_a_segment_that_one_listing_misses_is_found_by_the_other(tmp_path, monkeypatch, missed_by):
    """A long directory is listed in steps; a segment that becomes Parquet between two of them can be in none."""
    missed = Path(tmp_path, f"{FIRST}.parquet")
    listings = [[missed], [missed]]
    listings[missed_by] = []
    steps = iter(listings)
    monkeypatch.setattr(segments.Path, "iterdir", lambda _: iter(next(steps)))
    assert list_segments(tmp_path) == [Segment.of(missed)]

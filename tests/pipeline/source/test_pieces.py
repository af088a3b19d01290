"""Segments cut into pieces: each line is in one of them, wherever the cuts and the faults are."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory_async.journal.lines import Damage, read_lines
from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.source import extent
from purgatory_async.pipeline.source.extent import (
    START,
    Piece,
    Position,
    SegmentGone,
    divide,
    last_position,
    read_table,
    survey,
)
from tests.pipeline.journals import Node, append, lines, live, rotated


def mixed_records(count=12):
    node = Node()
    for number in range(count):
        node.submit(f"op-{number}", number, keys=("a" * (number % 5), "ü"))
        if number % 3:
            node.outcome(f"op-{number}", number, checks=number)
    return node.records


def seqs(batches):
    found = (seq for batch in batches for seq in batch.column("seq").to_pylist())
    return sorted(seq for seq in found if seq is not None)


def records_in(piece):
    return read_table(piece, "records")


def damage_in(piece):
    return (
        Damage(row["offset"], row["reason"])
        for batch in read_table(piece, "damage")
        for row in batch.to_pylist()
    )


def pieces_of(path, size):
    whole = Piece(path.parent, path.stem, START, last_position(path))
    return list(divide(whole, size))


RECORDS = mixed_records()
LINES = lines(RECORDS)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, len(LINES) + 10),
    torn=st.integers(0, 200),
    damaged=st.sets(st.integers(0, 19), max_size=6),
)
def test_pieces_of_any_size_have_every_line_once(tmp_path_factory, size, torn, damaged):
    directory = tmp_path_factory.mktemp("journal")
    written = LINES.splitlines(keepends=True)
    data = b"".join(b"{" + line[2:] if number in damaged else line for number, line in enumerate(written))
    path = live(directory, [])
    path.write_bytes(data + LINES[:torn].rpartition(b"\n")[2])
    pieces = pieces_of(path, size)
    read = list(read_lines(data))
    assert seqs(batch for piece in pieces for batch in records_in(piece)) == [
        line.seq for line in read if not isinstance(line, Damage)
    ]
    assert [found for piece in pieces for found in damage_in(piece)] == [
        line for line in read if isinstance(line, Damage)
    ]
    # The places between pieces name the same records by seq, for when the lines become Parquet.
    for piece in pieces:
        before = [line.seq for line in read_lines(data[: piece.end.offset]) if not isinstance(line, Damage)]
        assert piece.end.seq == (before[-1] if before else 0)


# A flipped or lost byte may make two lines of one or one of two; the rest of the file must not suffer.
@pytest.mark.parametrize(
    "fault", [lambda byte: b"", lambda byte: bytes([byte ^ 1]), lambda byte: b"\n", lambda byte: b"\xff"]
)
def test_damage_at_any_byte_costs_its_line_and_no_other(tmp_path, fault):
    data = lines(RECORDS[:3])
    ends = [index for index, byte in enumerate(data) if byte == ord("\n")]
    path = live(tmp_path, [])
    for at in range(len(data)):
        path.write_bytes(data[:at] + fault(data[at]) + data[at + 1 :])
        found = [batch for piece in pieces_of(path, 100) for batch in read_table(piece, "all")]
        good = seqs(found)
        hit = sum(end < at for end in ends) + 1
        beside = {hit, hit + 1} if at in ends else {hit}
        assert set(range(1, 4)) - beside <= set(good) <= set(range(1, 4))
        assert len(good) == len(set(good))


@pytest.mark.parametrize("size", [1, 100, 700, 10_000])
def test_a_segment_sealed_after_planning_is_read_once(tmp_path, size):
    path = live(tmp_path, RECORDS[:-3])
    pieces = pieces_of(path, size)
    rotated(tmp_path, RECORDS)  # with more than was there
    assert seqs(batch for piece in pieces for batch in records_in(piece)) == [r.seq for r in RECORDS[:-3]]
    assert not any(list(damage_in(piece)) for piece in pieces)


def test_pieces_of_a_segment_that_was_deleted_say_so(tmp_path):
    path = live(tmp_path, RECORDS)
    pieces = pieces_of(path, 1000)
    path.unlink()
    with pytest.raises(SegmentGone, match=r"run\.n1\.000001 was deleted before its records after seq 0"):
        list(records_in(pieces[0]))


def test_a_torn_line_is_read_when_it_is_whole_and_only_then(tmp_path):
    path = live(tmp_path, RECORDS[:3])
    whole = last_position(path)
    last = lines(RECORDS[3:4])
    append(path, last[:-1])
    assert last_position(path) == last_position(path, whole) == whole
    append(path, last[-1:])
    end = last_position(path, whole)
    assert end == Position(len(lines(RECORDS[:4])), 4)
    assert seqs(records_in(Piece(tmp_path, path.stem, whole, end))) == [4]


# Both are there when a program is killed between the two steps of a rotation.
def test_of_a_segment_in_both_forms_the_parquet_counts(tmp_path):
    parquet = rotated(tmp_path, RECORDS)
    live(tmp_path, RECORDS)
    found = survey(tmp_path)
    assert (found.pieces, list(found.parquet.values())) == ((), [(parquet,)])


# What was JSON lines when the directory was listed may be something else when it is opened.
@pytest.mark.parametrize("became_parquet", [True, False])
def test_a_survey_sees_what_a_segment_became_since_listing(tmp_path, monkeypatch, became_parquet):
    path = live(tmp_path, RECORDS)
    monkeypatch.setattr(extent, "segments_in", lambda _: [Segment.of(path)])
    parquet = rotated(tmp_path, RECORDS)
    if not became_parquet:
        parquet.unlink()
    found = survey(tmp_path)
    assert (found.pieces, list(found.parquet.values())) == ((), [(parquet,)] if became_parquet else [])


def test_hidden_files_and_strangers_are_no_segments(tmp_path):
    live(tmp_path, RECORDS)
    for name in (
        ".run.n1.000002.jsonl",
        "_run.n1.000003.jsonl",
        "notes.txt",
        "run.n1.jsonl",
        "run.n1.2.jsonl",
    ):
        (tmp_path / name).write_bytes(LINES)
    assert {piece.segment for piece in survey(tmp_path).pieces} == {"run.n1.000001"}


def test_a_line_longer_than_a_block_is_one_record(tmp_path):
    node = Node()
    node.submit("op", 0, keys=["k" * (1 << 20)])
    node.outcome("op", 1)
    path = live(tmp_path, node.records)
    assert seqs(batch for piece in pieces_of(path, 1000) for batch in records_in(piece)) == [1, 2]


def test_the_rest_of_a_parquet_file_is_its_unread_lines(tmp_path):
    path = live(tmp_path, RECORDS[:5])
    read = Piece(tmp_path, path.stem, START, last_position(path))
    rotated(tmp_path, RECORDS)
    rest = replace(read, begin=read.end, end=None)
    assert seqs(records_in(read)) == [1, 2, 3, 4, 5]
    assert seqs(records_in(rest)) == [record.seq for record in RECORDS[5:]]


@pytest.mark.parametrize(("few", "small"), [(12, True), (11, False)])
def test_a_journal_is_small_by_its_bytes_and_parquet_rows(tmp_path, monkeypatch, few, small):
    records = mixed_records(6)
    rotated(tmp_path, records)
    path = live(tmp_path, records[:2], number=2)
    monkeypatch.setattr(extent, "_LINE", path.stat().st_size // 2)
    monkeypatch.setattr(extent, "_FEW", few)
    assert survey(tmp_path).small == small

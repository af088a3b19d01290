"""Parquet segments of a journal: read as they were written, refused if they are damaged, lenient to other writers."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_async.journal.columns import add_checksum
from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.source.extent import survey
from purgatory_async.pipeline.source.parquet import holds_after, read_rows, spark_columns
from tests.pipeline.journals import Node, rotated


def some_records():
    node = Node()
    for number in range(20):
        node.submit(f"op-{number}", number)
        node.outcome(f"op-{number}", number, outcome="expired", lateness_ns=number, checks=1)
    return node.records


RECORDS = some_records()


def rows(path):
    return [row for batch in read_rows(path, 0, None) for row in batch.to_pylist()]


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_segment_with_a_checksum_is_read_like_one_without(tmp_path):
    path = rotated(tmp_path, RECORDS)
    before = rows(path), spark_columns(path)
    add_checksum(path)
    assert (rows(path), spark_columns(path)) == before
    assert holds_after(path, len(RECORDS) - 1)


@pytest.mark.parametrize("place", [5, 700, -20])
def test_a_segment_that_was_hurt_is_refused_before_it_is_read(tmp_path, place):
    path = rotated(tmp_path, RECORDS)
    add_checksum(path)
    flip(path, place)
    with pytest.raises(Refused, match=r"run\.n1\.000001\.parquet is damaged: its checksum must be"):
        survey(tmp_path)
    with pytest.raises(pa.ArrowInvalid, match=r"000001\.parquet: its checksum must be .*; remove it, or put"):
        rows(path)
    # Its statistics show whether a stream has something to read in it.
    with pytest.raises(ValueError, match="its checksum must be"):
        holds_after(path, 0)


def test_a_misspelt_column_without_a_checksum_is_refused(tmp_path):
    path = rotated(tmp_path, RECORDS)
    data = path.read_bytes()
    # Each column chunk names its column; the schema, which counts, comes first in the footer.
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    flip(path, data.find(b"lateness_ns", footer))
    with pytest.raises(
        Refused, match=r"is damaged: its columns must be .*'lateness_ns'.* got .*'mateness_ns'"
    ):
        spark_columns(path)
    with pytest.raises(pa.ArrowInvalid, match="its columns must be"):
        rows(path)


def test_a_column_that_every_record_has_must_not_be_missing(tmp_path):
    path = rotated(tmp_path, RECORDS)
    pq.write_table(pq.read_table(path).drop_columns(["wall_ns"]), path)
    with pytest.raises(Refused, match="lacks wall_ns, which every record of a journal has"):
        spark_columns(path)


def test_another_column_may_be_missing_and_is_null(tmp_path):
    path = rotated(tmp_path, RECORDS)
    whole = rows(path)
    pq.write_table(pq.read_table(path).drop_columns(["lateness_ns"]), path)
    assert "lateness_ns" not in dict(spark_columns(path))
    assert rows(path) == [row | {"lateness_ns": None} for row in whole]

"""What records cover, reported in parts: ranges of numbers, and counts."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.pipeline.operations import buckets
from purgatory_async.pipeline.operations.coverage import COVER_READ, COVERED, cover
from tests.pipeline.journals import MS, Node


def covered(records, size=3):
    table = pa.Table.from_batches(record_batches(records), arrow_schema()).select(COVER_READ)
    return pa.Table.from_batches(cover(table.to_batches(max_chunksize=size)), COVERED).to_pylist()


def ranges(rows):
    return sorted((row["node"], row["first_seq"], row["last_seq"]) for row in rows if row["first_seq"])


@given(st.sets(st.integers(1, 60), min_size=1))
def test_ranges_cover_the_numbers_across_record_kinds(numbers):
    node = Node()
    for seq in sorted(numbers):
        (node.submit if seq % 2 else node.outcome)("op", 0, seq=seq)
    edges = sorted(seq for seq in numbers if seq - 1 not in numbers)
    ends = sorted(seq for seq in numbers if seq + 1 not in numbers)
    assert ranges(covered(node.records)) == [("n1", *edge) for edge in zip(edges, ends, strict=True)]


def test_a_number_that_is_there_twice_makes_no_range_of_its_own():
    node = Node()
    for seq in (1, 2, 2, 3):
        node.stats(0, seq=seq)
    assert ranges(covered(node.records)) == [("n1", 1, 3)]


@pytest.mark.parametrize("portion", [2, 100])
def test_each_node_is_counted_for_itself_and_parts_add_up(portion, monkeypatch):
    monkeypatch.setattr(buckets, "_RECORDS", portion)
    here, there = Node(node="n1"), Node(node="n2")
    for place in range(3):
        here.submit(f"op-{place}", place * MS, timeout=None if place else MS)
        there.signal("a", -place * MS)
    here.outcome("op-0", 5 * MS)
    here.stats(4 * MS)
    rows = covered([*here.records, *there.records])
    assert ranges(rows) == [("n1", 1, 5), ("n2", 1, 3)]
    counts = {
        node: {
            name: sum(row[name] or 0 for row in rows if row["node"] == node)
            for name in ("records", "submits", "outcomes", "signals", "untimed")
        }
        for node in ("n1", "n2")
    }
    assert counts == {
        "n1": {"records": 5, "submits": 3, "outcomes": 1, "signals": 0, "untimed": 2},
        "n2": {"records": 3, "submits": 0, "outcomes": 0, "signals": 3, "untimed": 0},
    }
    numbers = [row for row in rows if row["records"]]
    assert {row["tick_ns"] for row in numbers if row["tick_ns"]} == {MS}
    spans = {
        node: (
            min(row["first_ns"] for row in numbers if row["node"] == node),
            max(row["last_ns"] for row in numbers if row["node"] == node),
        )
        for node in ("n1", "n2")
    }
    assert spans == {"n1": (0, 5 * MS), "n2": (-2 * MS, 0)}

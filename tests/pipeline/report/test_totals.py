"""The sums of a report, against operations that are counted one by one."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from purgatory_async.pipeline.operations.pairing import OPERATIONS
from purgatory_async.pipeline.report import totals
from purgatory_async.pipeline.spark_tables import spark_schema

WIDTH_NS = 10
ENDS = ("completed", "expired", "cancelled", "failed", "closed")


def operation(some):
    begin_ns, held_ns = some.randrange(-30, 1000), some.choice([0, 1, some.randrange(2**40)])
    outcome = some.choice([*ENDS, None])
    row = {"run_id": "run", "node": some.choice(["n1", "n2"]), "submit_ns": begin_ns, "outcome": outcome}
    row |= {"submit_wall_ns": begin_ns - 500, "keys": some.sample("abc", some.randrange(4))}
    if outcome is not None:
        row |= {"end_ns": begin_ns + held_ns, "end_wall_ns": begin_ns + held_ns - 500, "latency_ns": held_ns}
        row |= {"lateness_ns": held_ns // 2 if outcome == "expired" else None}
    return row


@pytest.fixture(scope="module")
def rows():
    some = random.Random(1)
    return [operation(some) for _ in range(300)]


@pytest.fixture(scope="module")
def operations(spark, rows):
    return spark.createDataFrame(pa.Table.from_pylist(rows, OPERATIONS), spark_schema(OPERATIONS)).cache()


def test_the_timeline_counts_what_happened_in_each_stretch(operations, rows):
    happened = [("submitted", row["submit_wall_ns"]) for row in rows]
    happened += [(row["outcome"], row["end_wall_ns"]) for row in rows if row["outcome"]]
    assert cells(totals.timeline(operations, WIDTH_NS), "start_ns", ("submitted", *ENDS)) == Counter(
        (at // WIDTH_NS * WIDTH_NS, what) for what, at in happened
    )


def test_an_operation_and_a_signal_count_under_each_key(spark, operations, rows):
    signals = spark.createDataFrame([("a",), ("d",), ("a",)], "key string")
    found = cells(totals.by_key(operations, signals), "key", ("submitted", *ENDS, "pending", "signals"))
    expected = Counter({("a", "signals"): 2, ("d", "signals"): 1})
    for row in rows:
        for key in row["keys"]:
            expected.update([(key, "submitted"), (key, row["outcome"] or "pending")])
    assert found == expected


def test_keys_add_up_by_the_part_before_the_first_sign(spark, operations):
    signals = spark.createDataFrame(
        [(key,) for key in ("orders/1", "orders:2/3", "orders:2/3", "plain", ":x", "")], "key string"
    )
    found = totals.by_prefix(totals.by_key(operations.limit(0), signals)).collect()
    assert {row.prefix: (row["keys"], row.signals) for row in found} == {
        "orders": (2, 3),
        "": (1, 1),
        None: (2, 2),
    }


def cells(frame, name, columns):
    """What a table counts, by its first column and the heading."""
    return Counter({(row[name], what): row[what] for row in frame.collect() for what in columns if row[what]})

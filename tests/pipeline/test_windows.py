"""Windows by key: what is counted where, against a count by hand; and rows that add up."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.pipeline.operations.tables import dealt, operations
from purgatory_async.pipeline.spark_tables import RECORD_SCHEMA
from purgatory_async.pipeline.windows import OUTCOMES, add_up, steps, windows
from tests.pipeline.journals import EPOCH, MS, Node

SECOND = 1_000_000_000
COLUMNS = ["window_start_ns", "key", "submitted", *OUTCOMES, "latency_sketch"]


def busy_node(count=300):
    node = Node()
    for number in range(count):
        keys = [f"k{number % 3}", f"k{number % 5}"]  # sometimes the same twice
        node.submit(f"op-{number}", number * 40 * MS, keys=keys)
        if number >= 50 and number % 7:
            word = OUTCOMES[number % 11] if number % 11 < 5 else "completed"
            node.outcome(f"op-{number - 50}", number * 40 * MS, outcome=word, keys=["?"], latency=number * MS)
        if number % 30 == 0:
            node.outcome(f"op-{number - 50}", number * 40 * MS, outcome="expired")
            node.outcome("nobody", number * 40 * MS)
    return node


def counted_by_hand(records, width_ns):
    """A walk over the records in order of seq; what ends twice or never began counts nowhere."""
    counts, latencies, pending = Counter(), {}, {}
    for record in records:
        word = getattr(record, "outcome", "submitted")
        if word == "submitted":
            pending[record.op_id] = set(record.keys)
        elif record.op_id not in pending:
            continue
        start = record.wall_ns // width_ns * width_ns
        keys = pending[record.op_id] if word == "submitted" else pending.pop(record.op_id)
        for key in keys:
            counts[start, key, word] += 1
            if word == "completed":
                latencies.setdefault((start, key), []).append(record.latency_ns)
    return counts, latencies


def table(spark, records, width_ns):
    rows = pa.Table.from_batches(record_batches(records), arrow_schema())
    return windows(steps(operations(dealt(spark.createDataFrame(rows, RECORD_SCHEMA)))), width_ns)


def as_counts(frame):
    return Counter(
        {
            (row.window_start_ns, row.key, word): row[word]
            for row in frame.collect()
            for word in ("submitted", *OUTCOMES)
            if row[word]
        }
    )


@pytest.fixture(scope="module")
def node():
    return busy_node()


@pytest.fixture(scope="module")
def by_second(spark, node):
    return table(spark, node.records, SECOND).cache()


def test_every_operation_counts_once_under_each_of_its_keys(by_second, node):
    assert by_second.columns == COLUMNS
    counts, latencies = counted_by_hand(node.records, SECOND)
    assert as_counts(by_second) == counts
    smallest = sf.kll_sketch_get_quantile_bigint("latency_sketch", sf.lit(0.0)).alias("least")
    found = by_second.where("completed > 0").select(
        "window_start_ns", "key", smallest, sf.kll_sketch_get_n_bigint("latency_sketch").alias("n")
    )
    assert {(r.window_start_ns, r.key): (r.least, r.n) for r in found.collect()} == {
        place: (min(values), len(values)) for place, values in latencies.items()
    }
    assert by_second.where("(latency_sketch is null) != (completed = 0)").count() == 0


# Of several rows of a window one must get what one row would have had, also for coarser windows.
def test_rows_of_parts_add_up_to_those_of_the_whole(spark, by_second, node):
    coarse = add_up(by_second, 4 * SECOND)
    counts, latencies = counted_by_hand(node.records, 4 * SECOND)
    assert coarse.columns == COLUMNS
    assert as_counts(coarse) == counts
    median = sf.kll_sketch_get_quantile_bigint("latency_sketch", sf.lit(0.5)).alias("median")
    for row in coarse.where("completed > 0").select("window_start_ns", "key", median).collect():
        values = sorted(latencies[row.window_start_ns, row.key])
        rank = sum(value <= row.median for value in values) / len(values)
        assert abs(rank - 0.5) <= 0.5 / len(values) + 0.03


def test_an_instant_before_1970_is_in_a_window_beginning_earlier(spark):
    node = Node(epoch=-EPOCH)
    node.submit("op", 1)
    (row,) = table(spark, node.records, 7).collect()
    assert row.window_start_ns <= -EPOCH + 1 < row.window_start_ns + 7
    assert row.window_start_ns % 7 == 0

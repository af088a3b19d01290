"""The sums of buckets, and the percentiles that they lead to, against operations that are counted one by one."""

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

from purgatory_async.pipeline.operations.pairing import OPERATIONS
from purgatory_async.pipeline.report import totals
from purgatory_async.pipeline.report.prefixes import prefix_table, ranked_sums
from purgatory_async.pipeline.report.sums import CHOSEN, READ, STEPS, Ranks, added_up, chosen, summed
from purgatory_async.pipeline.spark_tables import spark_schema

LAST_NS = {("run", "n1"): 2**60, ("run", "n2"): 2**60 + 5}
ENDS = ("completed", "expired", "cancelled", "failed", "closed")
KEYS = ("x:1", "x:2", "x/1:2", "y/", "plain", ":")
PREFIX = {"x:1": "x", "x:2": "x", "x/1:2": "x", "y/": "y", "plain": None, ":": ""}
SHARES = (1, 50, 95, 99, 100)


def operation(some):
    begin_ns, held_ns = some.randrange(-30, 1000), some.choice([0, 1, 7, some.randrange(2**40)])
    outcome = some.choice([*ENDS, "completed", "completed", None])
    row = {"run_id": "run", "node": some.choice(["n1", "n2"]), "submit_ns": begin_ns, "outcome": outcome}
    row["keys"] = some.sample(KEYS, some.randrange(4))
    if outcome is not None:
        row |= {"end_ns": begin_ns + held_ns, "latency_ns": held_ns}
        row |= {"lateness_ns": some.choice([held_ns // 2 - 3, None]) if outcome == "expired" else None}
    return row


@pytest.fixture(scope="module")
def rows():
    some = random.Random(1)
    return [operation(some) for _ in range(600)]


def in_buckets(rows, count):
    return [pa.Table.from_pylist(rows[place::count], OPERATIONS) for place in range(count)]


def sums_of(rows, count=3):
    return added_up(pa.concat_tables(summed(bucket, LAST_NS) for bucket in in_buckets(rows, count)))


def durations(rows):
    """The durations of each set of operations."""
    found = defaultdict(list)
    for row in rows:
        value = row["latency_ns"] if row["outcome"] == "completed" else row.get("lateness_ns")
        if value is not None:
            found[row["outcome"], None, True].append(value)
        if row["outcome"] == "completed":
            for prefix in {PREFIX[key] for key in row["keys"]}:
                found["completed", prefix, False].append(value)
    return found


def nearest_rank(values, share):
    return sorted(values)[-(-share * len(values) // 100) - 1]


def test_counts_and_times_pending_are_those_of_each_operation(rows):
    whole = [row for row in sums_of(rows).to_pylist() if row["whole"]]
    counts = Counter()
    for row in whole:
        counts[row["outcome"]] += row["count"]
    assert counts == Counter(row["outcome"] or "pending" for row in rows)
    held = [row.get("end_ns", LAST_NS["run", row["node"]]) - row["submit_ns"] for row in rows]
    assert sum(held) > 2**63
    assert sum(row["held_ns"] for row in whole) == sum(held)


def test_each_duration_is_counted_in_its_step(rows):
    values = durations(rows)
    for row in sums_of(rows).to_pylist():
        if row["step"] is None:
            continue
        low, high = (2 ** ((row["step"] + edge) / STEPS) for edge in (0, 1))
        own = values[row["outcome"], row["prefix"], row["whole"]]
        inside = [value for value in own if low <= max(value, 1) < high]
        assert (row["count"], row["least"], row["greatest"]) == (len(inside), min(inside), max(inside))


@pytest.mark.parametrize("count", [1, 5])
def test_percentiles_are_exact_in_any_number_of_buckets(spark, rows, count):
    sums = sums_of(rows, count)
    ranks = Ranks(sums, SHARES)
    assert ranks.parts
    picked = [chosen(bucket.select(READ), ranks.parts) for bucket in in_buckets(rows, count)]
    frame = spark.createDataFrame(pa.concat_tables(picked), spark_schema(CHOSEN))
    for found in totals.ranked(frame, ranks.wanted):
        ranks.solve(*found)
    assert ranks.found == {
        whose: {share: nearest_rank(own, share) for share in SHARES} for whose, own in durations(rows).items()
    }


def test_prefixes_count_an_operation_once_and_busiest_first(rows):
    keys = pa.table({"prefix": ["", "x", None, "y"], "keys": [1, 3, 1, 1], "signals": [9, 8, 7, 6]})
    ranks = {("completed", "x", False): {50: 5, 95: 6, 99: 7}}
    sums = sums_of(rows)
    assert ranked_sums(sums).equals(sums)
    found = prefix_table(sums, ranks, keys).to_pylist()
    counts = Counter(prefix for row in rows for prefix in {PREFIX[key] for key in row["keys"]})
    assert [(row["prefix"], row["submitted"]) for row in found] == counts.most_common()
    busiest = found[0]
    of_x = [row for row in rows if any(PREFIX[key] == "x" for key in row["keys"])]
    assert (busiest["prefix"], busiest["keys"], busiest["signals"]) == ("x", 3, 8)
    assert {name: busiest[name] for name in (*ENDS, "pending")} == Counter(
        row["outcome"] or "pending" for row in of_x
    )
    assert [busiest[f"latency_{name}_ns"] for name in ("p50", "p95", "p99")] == [5, 6, 7]
    assert busiest["latency_max_ns"] == max(
        row["latency_ns"] for row in of_x if row["outcome"] == "completed"
    )


def test_a_bucket_without_operations_has_no_sums():
    empty = summed(OPERATIONS.empty_table(), {})
    assert added_up(empty).num_rows == 0
    assert chosen(OPERATIONS.empty_table().select(READ), {(("completed", "x", False), 3): 0}).num_rows == 0

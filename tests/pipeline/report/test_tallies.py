"""Tallies of operations: counts that one can make by hand, and that add up."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.pipeline.operations.pairing import OPERATIONS
from purgatory_async.pipeline.report.tallies import STEPS, Tally, signalled

WIDTH_NS = 10
OUTCOMES = ("completed", "expired", "cancelled", "failed", "closed")


def operation(node, outcome, began_ns, held_ns, keys):
    row = {"run_id": "run", "node": node, "op_id": "op", "submit_ns": began_ns, "keys": keys}
    row |= {"submit_wall_ns": began_ns - 500, "outcome": outcome}
    if outcome is not None:
        row |= {"end_ns": began_ns + held_ns, "end_wall_ns": began_ns + held_ns - 500, "latency_ns": held_ns}
        row |= {"lateness_ns": held_ns // 2 if outcome == "expired" else None}
    return row


ROWS = st.lists(
    st.builds(
        operation,
        st.sampled_from(["n1", "n2"]),
        st.sampled_from([*OUTCOMES, None]),
        st.integers(-30, 1000),
        st.integers(0, 2**40),
        st.lists(st.sampled_from("abc"), unique=True),
    ),
    max_size=20,
)


def tallied(rows):
    return Tally(WIDTH_NS).of(pa.Table.from_pylist(rows, OPERATIONS)).to_pylist()


def counts(found, tally, *names):
    total = Counter()
    for row in found:
        if row["tally"] == tally:
            total[tuple(row[name] for name in names)] += row["count"]
    return total


@given(ROWS, st.integers(0, 20))
def test_parts_of_operations_count_up_to_the_whole(rows, cut):
    found = tallied(rows[:cut]) + tallied(rows[cut:])
    assert counts(found, "total", "node", "name") == Counter((row["node"], row["outcome"]) for row in rows)
    assert counts(found, "key", "key", "name") == Counter(
        (key, row["outcome"] or "pending") for row in rows for key in row["keys"]
    )
    happened = [("submitted", row["submit_wall_ns"]) for row in rows]
    happened += [(row["outcome"], row["end_wall_ns"]) for row in rows if row["outcome"]]
    assert counts(found, "time", "name", "at") == Counter(
        (what, at // WIDTH_NS * WIDTH_NS) for what, at in happened
    )
    held_ns = sum(row["first"] * 10**9 + row["second"] for row in found if row["tally"] == "total")
    assert held_ns == sum((row.get("end_ns") or 0) - row["submit_ns"] for row in rows)


@given(ROWS)
def test_each_duration_is_in_its_step(rows):
    steps = [row for row in tallied(rows) if row["tally"] == "step"]
    values = {"completed": [], "expired": []}
    for row in rows:
        if row["outcome"] in values:
            values[row["outcome"]].append(
                row["latency_ns" if row["outcome"] == "completed" else "lateness_ns"]
            )
    for name, durations in values.items():
        own = sorted((row for row in steps if row["name"] == name), key=lambda row: row["at"])
        assert sum(row["count"] for row in own) == len(durations)
        assert {row["first"] for row in own} | {row["second"] for row in own} <= set(durations)
        for row in own:
            low, high = 2 ** (row["at"] / STEPS), 2 ** ((row["at"] + 1) / STEPS)
            assert low <= max(row["first"], 1) <= max(row["second"], 1) < high
            inside = [each for each in durations if row["first"] <= each <= row["second"]]
            assert len(inside) == row["count"]


def test_signals_are_counted_by_key_and_other_records_are_not():
    rows = [("signal", "a"), ("submit", None), ("signal", "b"), ("signal", "a"), ("stats", None)]
    table = pa.table({"kind": [kind for kind, _ in rows], "key": [key for _, key in rows]})
    found = [row for batch in signalled(table.to_batches(max_chunksize=2)) for row in batch.to_pylist()]
    assert sorted((row["key"], row["count"]) for row in found) == [("a", 2), ("b", 1)]

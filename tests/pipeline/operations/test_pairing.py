"""Records that were dealt out and put together again: the same operations and anomalies as one record after another.

The oracle goes through each node's records in the order of ``seq``, as the definition does.
"""

import random

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.pipeline.operations import buckets
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, bucket_of, deal, gathered
from purgatory_async.pipeline.operations.pairing import Pairing

KINDS = ("submit", "outcome", "signal", "reschedule")
SCHEMA = pa.schema([arrow_schema().field(name) for name in DEAL_READ])


def record(seq, owner, op_id, kind, at_ns, *, bare=False):
    """Any record; a bare outcome has no duration written."""
    run_id, node = owner
    row = {"run_id": run_id, "node": node, "seq": seq, "kind": kind, "mono_ns": at_ns, "wall_ns": at_ns + 7}
    if kind != "signal":
        row["op_id"] = op_id
    if kind == "submit":
        row |= {"keys": ["a", f"k{seq}"], "needed": seq, "timeout_ns": None if bare else 5}
    if kind == "reschedule":
        row |= {"timeout_ns": None if bare else 9}
    if kind == "outcome":
        row |= {"outcome": "expired" if at_ns % 2 else "completed", "checks": seq, "inserts": None}
        row |= {"how": None if bare else "fail", "by": None if bare else f"person {seq}"}
        row |= {"latency_ns": None if bare else at_ns + 1, "lateness_ns": None}
    return row


RECORDS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["run", "another"]), st.sampled_from(["n1", "n2"])),
        st.sampled_from(["", "1", "2", "11", "an id that is longer than the others"]),
        st.sampled_from(KINDS),
        st.integers(-5, 50),
        st.booleans(),
    ),
    max_size=40,
).map(lambda drawn: [record(seq, *fields, bare=bare) for seq, (*fields, bare) in enumerate(drawn, 1)])


def dealt(rows, size, number):
    """The rows of each bucket, dealing this many records at a time."""
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=max(size, 1))
    found = pa.Table.from_batches(deal(batches, number), DEALT)
    return [
        found.filter(pa.array([which == bucket for which in found["bucket"].to_pylist()]))
        for bucket in sorted(set(found["bucket"].to_pylist()))
    ]


def put_together(rows, size=7, number=5):
    pairings = [Pairing.of(*gathered(bucket)) for bucket in dealt(rows, size, number)]
    operations = [row for pairing in pairings for row in pairing.operations().to_pylist()]
    anomalies = [row for pairing in pairings for row in pairing.anomalies().to_pylist()]
    return operations, anomalies


def oracle(rows):
    """Go through the records in order."""
    lives, strange = {}, []
    for row in sorted(rows, key=lambda row: (row["run_id"], row["node"], row["seq"])):
        operation = row["run_id"], row["node"], row.get("op_id")
        if row["kind"] == "submit":
            if operation in lives:
                strange.append((row, "submitted before"))
            else:
                lives[operation] = (row, [], None)
        elif row["kind"] != "signal":
            begin, moves, end = lives.get(operation, (None, None, None))
            if begin is None:
                strange.append((row, "no submission before it"))
            elif end is not None:
                strange.append((row, "ended before"))
            elif row["kind"] == "reschedule":
                moves.append(row)
            else:
                lives[operation] = (begin, moves, row)
    return [life(*records) for records in lives.values()], [anomaly(*each) for each in strange]


def life(begin, moves, end):
    held_ns = late_ns = None
    last = moves[-1] if moves else begin
    due_ns = None if last["timeout_ns"] is None else last["mono_ns"] + last["timeout_ns"]
    if end is not None:
        held_ns = end["mono_ns"] - begin["mono_ns"]
        late = end["outcome"] == "expired" and due_ns is not None
        late_ns = end["mono_ns"] - due_ns if late else None
    end = end or dict.fromkeys(
        ("outcome", "seq", "mono_ns", "wall_ns", "latency_ns", "checks", "inserts", "how", "by")
    )
    return {
        **{name: begin[name] for name in ("run_id", "node", "op_id", "keys", "needed", "timeout_ns")},
        **{name: end[name] for name in ("outcome", "checks", "inserts", "how", "by")},
        "deadline_ns": due_ns,
        "rescheduled_ns": moves[0]["mono_ns"] if moves else None,
        "submit_seq": begin["seq"],
        "submit_ns": begin["mono_ns"],
        "submit_wall_ns": begin["wall_ns"],
        "end_seq": end["seq"],
        "end_ns": end["mono_ns"],
        "end_wall_ns": end["wall_ns"],
        "latency_ns": held_ns if end["latency_ns"] is None else end["latency_ns"],
        "lateness_ns": late_ns,
    }


def anomaly(row, reason):
    names = ("run_id", "node", "seq", "kind", "op_id", "wall_ns", "mono_ns")
    return {**{name: row[name] for name in names}, "outcome": row.get("outcome"), "reason": reason}


def in_order(rows):
    return sorted(rows, key=lambda row: [row[name] for name in ("run_id", "node", "op_id")])


def by_seq(rows):
    return sorted(rows, key=lambda row: row["seq"])


MOVED_THEN_ENDED = [
    record(seq, ("run", "n1"), "1", kind, 11 * seq)
    for seq, kind in enumerate(
        ("reschedule", "submit", "reschedule", "reschedule", "outcome", "reschedule"), 1
    )
]


@given(RECORDS, st.randoms(), st.sampled_from([1, 3, 100]), st.sampled_from([1, 3, 64]))
@example(MOVED_THEN_ENDED, random.Random(1), 3, 1)
def test_pairing_agrees_with_a_sequential_reading(rows, chance, size, number):
    expected, strange = oracle(rows)
    chance.shuffle(rows)  # a reader may get them in any order
    operations, anomalies = put_together(rows, size, number)
    assert in_order(operations) == in_order(expected)
    assert by_seq(anomalies) == by_seq(strange)


def test_records_that_are_dealt_in_several_portions_meet_again(monkeypatch):
    monkeypatch.setattr(buckets, "_RECORDS", 10)
    rows = [record(seq, ("run", "n1"), str(seq % 50), KINDS[seq > 50], seq) for seq in range(1, 101)]
    random.Random(1).shuffle(rows)
    operations, anomalies = put_together(rows, size=4)
    assert (len(operations), anomalies) == (50, [])
    assert all(row["end_seq"] == row["submit_seq"] + 50 for row in operations)


def test_a_bucket_without_submissions_or_outcomes_is_paired():
    lone = record(1, ("run", "n1"), "op", "submit", 0)
    ghost = record(1, ("run", "n1"), "op", "outcome", 0)
    assert [row["outcome"] for row in put_together([lone])[0]] == [None]
    assert put_together([ghost])[0] == []
    assert [row["reason"] for row in put_together([ghost])[1]] == ["no submission before it"]


@pytest.mark.parametrize("number", [1, 2, 77, 1024])
def test_a_name_s_bucket_does_not_depend_on_what_is_around_it(number):
    names = [str(value) for value in range(2000)] + ["", "ü" * 300, None]
    whole = bucket_of(pa.chunked_array([names]), number)
    alone = [bucket_of(pa.chunked_array([[name]], pa.string()), number)[0] for name in names]
    cut = bucket_of(pa.chunked_array([pa.array(names).slice(1000)]), number)
    assert whole.tolist() == alone
    assert whole.tolist()[1000:] == cut.tolist()
    assert set(whole.tolist()) <= set(range(number))


def test_names_are_spread_over_the_buckets():
    numbers = bucket_of(pa.chunked_array([[f"request-{value}" for value in range(64_000)]]), 64).tolist()
    assert 800 < min(map(numbers.count, range(64))) <= max(map(numbers.count, range(64))) < 1200

"""Ranges of time: how they are written, and that each operation and anomaly is in one of several in a row."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.pipeline.operations.between import ALWAYS, Between, instant_ns
from purgatory_async.pipeline.operations.buckets import DEAL_READ, DEALT, deal, gathered
from purgatory_async.pipeline.operations.pairing import Pairing
from tests.pipeline.journals import Node

MIDNIGHT = 1_795_564_800 * 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-25T00:00Z", MIDNIGHT),
        ("20261125T000000z", MIDNIGHT),
        ("2026-11-25 05:30:00+05:30", MIDNIGHT),  # as Airflow and Python print it
        ("2026-11-24T23:00:00.000000001-01", MIDNIGHT + 1),
        ("1795564800", MIDNIGHT),
        ("1795564800.000000001", MIDNIGHT + 1),
        ("-1.5", -1_500_000_000),
    ],
)
def test_an_instant_is_read_to_the_nanosecond(text, expected):
    assert instant_ns(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "nan", "-inf", "1e400", "1e-10", "1e10000000"),
        *("2026-11-25", "2026-11-25T00:00", "2026-02-30T00:00Z", "2026-11-25T00:00Z ", "9999-01-01T00:00Z"),
        *("2026-11-25T00:00:00.1234567890Z", "2026-11-25T00:00+25:00", "1795564800000"),
    ],
)
def test_what_names_no_instant_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the option has the message
        instant_ns(text)


def test_a_range_is_said_in_utc_and_only_if_there_is_one():
    shown = Between(MIDNIGHT + 1, None).summary()
    assert shown == {"range": {"from": "2026-11-25T00:00:00.000000001Z", "to": None}}
    assert ALWAYS.summary() == {}


STEPS = st.lists(
    st.tuples(st.sampled_from(["submit", "outcome"]), st.sampled_from("abc"), st.integers(0, 9)), max_size=30
)


@given(STEPS, st.lists(st.integers(-2, 130), min_size=1, max_size=3, unique=True))
def test_each_operation_and_anomaly_is_in_one_of_the_ranges(steps, edges):
    node, at = Node(epoch=0), 0
    for kind, op_id, pause in steps:
        at += pause
        if kind == "submit":
            node.submit(op_id, at)
        else:
            node.outcome(op_id, at, latency=pause)
    records = pa.Table.from_batches(record_batches(node.records), arrow_schema()).select(DEAL_READ)
    tables = gathered(pa.Table.from_batches(deal(records.to_batches(), 1), DEALT))
    whole = Pairing.of(*tables)
    limits = [None, *sorted(edges), None]
    parts = [Pairing.of(*tables, between=Between(*pair)) for pair in pairwise(limits)]
    for table, order in ((Pairing.operations, "submit_seq"), (Pairing.anomalies, "seq")):
        apart = pa.concat_tables(table(part) for part in parts)
        assert apart.sort_by(order).equals(table(whole).combine_chunks().sort_by(order))
    for (low, high), part in zip(pairwise(limits), parts, strict=True):
        found = part.operations()["submit_wall_ns"].to_pylist()
        assert [
            at for at in found if (low is not None and at < low) or (high is not None and at >= high)
        ] == []

"""The life of an operation: its first submission, the first outcome after it, and what belongs to no life."""

import pyarrow as pa
import pytest

from purgatory_async.journal.columns import arrow_schema, record_batches
from purgatory_async.pipeline.operations.tables import anomalies, dealt, operations
from purgatory_async.pipeline.spark_tables import RECORD_SCHEMA
from tests.pipeline.journals import EPOCH, MS, Node


def table(spark, *nodes):
    """The records of some nodes as Spark reads them."""
    records = [record for node in nodes for record in node.records]
    return spark.createDataFrame(
        pa.Table.from_batches(record_batches(records), arrow_schema()), RECORD_SCHEMA
    )


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture(scope="module")
def journal(spark):
    """Everything that can happen to an operation, and the same ids in another node."""
    here, there = Node(node="n1"), Node(node="n2")
    here.submit("completed", 1 * MS, keys=("a", "b"), needed=2)
    here.submit("expired", 2 * MS)
    here.submit("pending", 3 * MS, timeout=None)
    here.outcome("completed", 5 * MS, latency=4 * MS, checks=3, inserts=1, how="answer", by="ann")
    here.outcome("completed", 6 * MS, outcome="expired", latency=5 * MS)
    here.outcome("expired", 203 * MS, outcome="expired", latency=201 * MS, lateness_ns=MS)
    here.outcome("never submitted", 204 * MS)
    here.outcome("late", 205 * MS)
    here.submit("late", 206 * MS)
    here.submit("late", 207 * MS)
    here.outcome("late", 208 * MS, outcome="cancelled", latency=2 * MS)
    there.submit("completed", 1 * MS)
    return table(spark, here, there)


def test_the_first_later_outcome_of_a_node_ends_its_operation(journal):
    found = operations(dealt(journal)).select(
        "node", "op_id", "submit_seq", "outcome", "end_seq", "latency_ns"
    )
    assert rows(found) == [
        ("n1", "completed", 1, "completed", 4, 4 * MS),
        ("n1", "expired", 2, "expired", 6, 201 * MS),
        ("n1", "late", 9, "cancelled", 11, 2 * MS),
        ("n1", "pending", 3, None, None, None),
        ("n2", "completed", 1, None, None, None),
    ]


def test_an_operation_has_what_its_two_records_say(journal):
    (found,) = operations(dealt(journal)).where("op_id = 'completed' and node = 'n1'").collect()
    assert found.asDict() == {
        "run_id": "run",
        "node": "n1",
        "op_id": "completed",
        "submit_seq": 1,
        "submit_ns": MS,
        "submit_wall_ns": EPOCH + MS,
        "keys": ["a", "b"],
        "needed": 2,
        "timeout_ns": 200 * MS,
        "deadline_ns": 201 * MS,
        "rescheduled_ns": None,
        "outcome": "completed",
        "end_seq": 4,
        "end_ns": 5 * MS,
        "end_wall_ns": EPOCH + 5 * MS,
        "latency_ns": 4 * MS,
        "lateness_ns": None,
        "checks": 3,
        "inserts": 1,
        "how": "answer",
        "by": "ann",
    }


def test_lateness_counts_from_the_deadline_that_was_moved_last(spark):
    node = Node()
    node.submit("moved", 1 * MS)
    node.reschedule("moved", 100 * MS, 50 * MS)
    node.reschedule("moved", 120 * MS, 500 * MS)
    node.outcome("moved", 621 * MS, outcome="expired", latency=620 * MS)
    node.submit("unbound", 622 * MS)
    node.reschedule("unbound", 623 * MS, None)
    node.reschedule("stranger", 624 * MS)
    node.reschedule("moved", 625 * MS)
    found = operations(dealt(table(spark, node))).select(
        "op_id", "timeout_ns", "deadline_ns", "rescheduled_ns", "outcome", "lateness_ns"
    )
    assert rows(found) == [
        ("moved", 200 * MS, 620 * MS, 100 * MS, "expired", 1 * MS),
        ("unbound", 200 * MS, None, 623 * MS, None, None),
    ]
    strange = anomalies(dealt(table(spark, node))).select("kind", "op_id", "reason")
    assert rows(strange) == [
        ("reschedule", "moved", "ended before"),
        ("reschedule", "stranger", "no submission before it"),
    ]


def test_what_belongs_to_no_life_is_listed_with_the_reason(journal):
    assert rows(anomalies(dealt(journal)).select("seq", "kind", "op_id", "outcome", "reason")) == [
        (5, "outcome", "completed", "expired", "ended before"),
        (7, "outcome", "never submitted", "completed", "no submission before it"),
        (8, "outcome", "late", "completed", "no submission before it"),
        (10, "submit", "late", None, "submitted before"),
    ]


def test_a_missing_latency_is_computed_from_the_instants(spark):
    node = Node()
    node.submit("op", 1 * MS, timeout=5 * MS)
    node.outcome("op", 7 * MS, outcome="expired")
    bare = table(spark, node).drop("latency_ns").selectExpr("*", "cast(null as long) as latency_ns")
    (found,) = operations(dealt(bare)).collect()
    assert (found.latency_ns, found.lateness_ns) == (6 * MS, 1 * MS)

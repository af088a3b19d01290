"""The distributed purgatory as one query of Spark's; what ends how is tested with the kernels, without it."""

import json
import random
import time

import pytest

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.jobs import distributed
from purgatory_async.pipeline.jobs.distributed import Plan, run
from tests.pipeline.distributed.purgatory_oracle import (
    Operation,
    Signal,
    outcome_of,
    outcomes_up_to,
)
from tests.pipeline.parquet_inputs import Inputs, read_outcomes

MS = 10**6
SECOND = 10**9
T = 1_700_000_000 * SECOND


@pytest.fixture(autouse=True)
def same_session(spark):
    """The job sets how many tasks its stages have; all tests share the session."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def directory(tmp_path):
    """Spark's readers look for patterns in a name, and URIs escape some letters."""
    return tmp_path / "run [1] of 100%"


@pytest.fixture
def inputs(directory):
    return Inputs(directory)


@pytest.fixture
def plan(directory, inputs):
    def of(**settings):
        settings = {"available_now": True, "shards": 2, **settings}
        return Plan(
            operations=inputs.operations,
            signals=inputs.signals,
            out=directory / "out",
            checkpoint=directory / "checkpoint",
            **settings,
        )

    return of


def random_inputs(seed, count):
    some = random.Random(seed)
    submitted = [
        Operation(
            f"op{number}",
            tuple(f"k{some.randrange(50)}" for _ in range(some.randint(0, 3))),
            some.randint(0, 3),
            T + some.randrange(60 * SECOND),
            some.randrange(5 * SECOND),
        )
        for number in range(count)
    ]
    signals = [
        Signal(f"k{some.randrange(50)}", T + some.randrange(60 * SECOND), some.randint(1, 2))
        for _ in range(count)
    ]
    return sorted(submitted, key=lambda row: row.submit_ns), sorted(signals, key=lambda row: row.at_ns)


def newest_batch(log):
    return max((int(path.stem) for path in log.iterdir() if path.stem.isdigit()), default=None)


def test_event_time_up_to_the_watermark_ends_as_one_machine_does(spark, inputs, plan, directory):
    submitted, signals = random_inputs(7, 400)
    inputs.submit(*submitted[:200])
    # The signals are two batches, and far ahead of the operations.
    inputs.signal(*signals[:150])
    inputs.signal(*signals[150:])
    # As if killed after the last batch that reads and before the one that the watermark of it makes due.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        run(plan(time="event", files_per_batch=1), spark)
    finally:
        spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    first, _ = run(plan(time="event", files_per_batch=1), spark)
    watermark_ns = submitted[199].submit_ns // MS * MS
    decided = outcomes_up_to(watermark_ns, submitted[:200], signals)
    assert read_outcomes(directory / "out") == decided
    assert first["submitted"] == 200
    assert first["pending"] == 200 - len(decided)

    # Spark itself would drop a row behind the watermark, and its operation would never end.
    late = Operation("late", ("k1",), 1, T - 10 * SECOND, SECOND)
    beat = Operation("beat", (), 1, T + 3600 * SECOND, SECOND)
    inputs.submit(*submitted[200:], late, beat)
    inputs.signal(Signal("beat", T + 3600 * SECOND, 1))
    second, noticed = run(plan(time="event"), spark)
    ends = sorted(outcome_of(row, signals) for row in [*submitted, late])
    assert read_outcomes(directory / "out") == ends
    completed = sum(end.outcome == "completed" for end in ends)
    assert second == {"submitted": 402, "completed": completed, "expired": 401 - completed, "pending": 1}
    assert noticed == {"late": 1, "repeated": 0}


def test_processing_time_ends_at_the_last_input_and_resumes(spark, inputs, plan, directory):
    # Spark alone would make empty batches for ever in the one, and none at all in the other, with nothing to read.
    now_ns = time.time_ns()
    completed = Operation("completed", ("a",), 1, now_ns - 9 * SECOND, SECOND)
    expired = Operation("expired", ("b",), 1, now_ns - 9 * SECOND, SECOND)
    waiting = Operation("waiting", ("b",), 1, now_ns, 3600 * SECOND)
    brief = Operation("brief", ("b",), 1, now_ns, 5 * SECOND)
    inputs.submit(completed, expired, waiting, brief)
    inputs.signal(Signal("a", now_ns - 8 * SECOND - 1, 1))
    first, _ = run(plan(time="processing"), spark)
    assert first["submitted"] == 4
    assert first["completed"] == 1
    patience_ns = brief.deadline_ns + 120 * SECOND

    def stopped():
        # A batch's files come before its commit, and a stop between them leaves a batch that the counts do not have.
        ended = len(read_outcomes(directory / "out")) == 3
        written = newest_batch(directory / "out" / "outcomes" / "_spark_metadata")
        committed = newest_batch(directory / "checkpoint" / "commits")
        return (ended and written == committed) or time.time_ns() > patience_ns

    second, _ = run(plan(time="processing", available_now=False, trigger=0.1), spark, stopped)
    assert second == {"submitted": 4, "completed": 1, "expired": 2, "pending": 1}
    assert [row[:2] for row in read_outcomes(directory / "out")] == [
        ("brief", "expired"),
        ("completed", "completed"),
        ("expired", "expired"),
    ]


def test_stages_have_no_more_tasks_than_shards_on_a_cluster(spark, inputs, plan, monkeypatch):
    # Two hundred, Spark's default there, would each open a state of their own in every batch, for as long as it lives.
    monkeypatch.setattr(distributed, "stateful_tasks", lambda _: 200)
    inputs.submit(Operation("op", (), 0, T, SECOND))
    run(plan(time="event"), spark)
    begun = (plan(time="event").checkpoint / "offsets" / "0").read_text().splitlines()[1]
    assert json.loads(begun)["conf"]["spark.sql.shuffle.partitions"] == "2"


def test_an_impossible_row_stops_it_with_file_and_row(spark, inputs, plan):
    # Left out, its operation would never end, without any report.
    inputs.submit(Operation("op", ("a", None), 1, T, SECOND))
    with pytest.raises(Refused, match=r'000000\.parquet has a row that cannot be right: \{"op_id":"op"'):
        run(plan(time="event"), spark)

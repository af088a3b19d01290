"""The two stages as Spark calls them, with Spark's own stand-in for its state and timers: no Java."""

import pandas as pd
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from purgatory_async.pipeline.distributed.operations import (
    OPERATION_INPUT,
    OPERATION_OUTPUT,
    OPERATION_STATE,
    OUTCOMES,
    OperationProcessor,
)
from purgatory_async.pipeline.distributed.shards import Pace, as_rows
from purgatory_async.pipeline.distributed.watches import (
    DECISIONS,
    WATCH_INPUT,
    WATCH_OUTPUT,
    WatchProcessor,
)

MS = 10**6
EVENT = Pace("event", delay_ms=0, keep_ms=0)
CLOCK = Pace("processing", delay_ms=3, keep_ms=50)


def stand_in(processor, pace):
    # Spark does not learn the event time of a row, so it drops none.
    return TwsTester(processor, timeMode=pace.time_mode, eventTimeExtractor=lambda _: MS**3)


def watching(pace):
    return stand_in(WatchProcessor(pace), pace)


def deciding(pace):
    return stand_in(OperationProcessor(pace), pace)


def to_watch(*rows):
    return pd.DataFrame([(0, *row) for row in rows], columns=list(WATCH_INPUT))


def to_decide(*rows):
    return pd.DataFrame([(0, *row) for row in rows], columns=list(OPERATION_INPUT))


def rows_of(frame):
    return list(frame.itertuples(index=False, name=None))


def watch(key, op_id, submit_ns, deadline_ns, needed=1):
    return key, op_id, submit_ns, deadline_ns, needed


def signal(key, at_ns, n=1):
    return key, None, at_ns, at_ns, n


def operation(op_id, submit_ns, deadline_ns, needed=1):
    return op_id, submit_ns, deadline_ns, needed, False


def match(op_id, submit_ns, at_ns, n=1):
    return op_id, submit_ns, at_ns, n, True


def timers(tester, shard=0):
    return list(tester.handle._timers.listTimers(shard))


def columns(ddl):
    return [column.split()[0] for column in ddl.split(", ")]


def test_spark_gets_the_columns_that_the_kernels_give():
    assert columns(WATCH_OUTPUT) == list(OPERATION_INPUT[1:])
    assert columns(WATCH_OUTPUT) == [*DECISIONS.names, "is_match"]
    assert columns(OPERATION_OUTPUT) == OUTCOMES.names


def test_a_signal_and_a_watch_meet_whichever_batch_brings_them():
    tester = watching(EVENT)
    assert tester.testInPandas(0, to_watch(signal("b", 5))).empty
    assert rows_of(
        tester.testInPandas(0, to_watch(watch("b", "late", 4, 90), watch("a", "early", 1, 90)))
    ) == [match("late", 4, 5)]
    assert rows_of(tester.testInPandas(0, to_watch(signal("a", 7, 2)))) == [match("early", 1, 7, 2)]


def test_an_operation_comes_through_the_first_stage_unchanged():
    tester = watching(EVENT)
    row = None, "op", 1, 90, 3  # as its watch, but without a key
    assert rows_of(tester.testInPandas(0, to_watch(row))) == [operation("op", 1, 90, 3)]
    assert tester.testInPandas(0, to_watch(signal("a", 7, 3))).empty


def test_a_shard_s_rows_may_come_in_parts_without_a_name():
    # pandas has no type for a column of nothing: Spark may split the rows after the last watch.
    parts = [to_watch(watch("a", "op", 1, 90)), to_watch(signal("b", 5)), to_watch((None, "op", 1, 90, 1))]
    rows = as_rows(parts)
    assert rows["key"].to_pylist() == ["a", "b", None]
    assert rows["op_id"].to_pylist() == ["op", None, "op"]


def test_by_the_clock_a_signal_is_kept_for_a_while_after_reading():
    tester = watching(CLOCK)
    tester.setProcessingTime(1_000)
    tester.testInPandas(0, to_watch(signal("a", 5 * MS)))
    tester.setProcessingTime(1_049)
    assert len(tester.testInPandas(0, to_watch(watch("a", "soon", 4 * MS, 9_999 * MS)))) == 1
    tester.setProcessingTime(1_054)
    assert tester.testInPandas(0, to_watch(watch("a", "later", 4 * MS, 9_999 * MS))).empty


def test_shards_know_nothing_of_each_other():
    tester = watching(EVENT)
    tester.testInPandas(0, to_watch(watch("a", "op", 1, 90)))
    assert tester.testInPandas(1, to_watch(signal("a", 7))).empty


@pytest.mark.parametrize("pace", [EVENT, CLOCK], ids=lambda pace: pace.time)
def test_an_idle_shard_releases_what_it_kept(pace):
    # The first batch comes before any watermark; a timer forgotten then would never fire.
    tester = watching(pace)
    tester.testInPandas(0, to_watch(watch("a", "op", 1 * MS, 9 * MS), signal("b", 5 * MS)))
    assert len(timers(tester)) == 1
    advance = tester.setWatermark if pace is EVENT else tester.setProcessingTime
    assert len(advance(70)) == 0
    assert tester.peekValueState("shard", 0) == (None, None, 0)
    assert timers(tester) == []


def test_expiry_is_at_the_first_millisecond_past_the_deadline():
    tester = deciding(EVENT)
    assert tester.testInPandas(0, to_decide(operation("op", 1 * MS, 5 * MS + 1))).empty
    assert timers(tester) == [6]  # one at 5 would go off in vain
    assert len(tester.setWatermark(5)) == 0
    assert rows_of(tester.setWatermark(6)) == [("op", "expired", 1 * MS, 5 * MS + 1, 5 * MS + 1)]
    assert len(tester.setWatermark(60)) == 0


def test_by_event_time_a_reached_sum_waits_for_earlier_signals():
    tester = deciding(EVENT)
    rows = operation("op", 1 * MS, 50 * MS), match("op", 1 * MS, 9 * MS)
    assert tester.testInPandas(0, to_decide(*rows)).empty
    assert tester.testInPandas(0, to_decide(match("op", 1 * MS, 7 * MS))).empty
    assert rows_of(tester.setWatermark(8)) == [("op", "completed", 1 * MS, 50 * MS, 7 * MS)]


def test_by_the_clock_a_sum_that_is_reached_counts_at_once():
    tester = deciding(CLOCK)
    tester.setProcessingTime(9)
    rows = operation("op", 1 * MS, 50 * MS), match("op", 1 * MS, 9 * MS)
    assert rows_of(tester.testInPandas(0, to_decide(*rows))) == [("op", "completed", 1 * MS, 50 * MS, 9 * MS)]
    assert tester.testInPandas(0, to_decide(match("op", 1 * MS, 10 * MS))).empty


def test_by_the_clock_an_operation_waits_the_delay_longer():
    tester = deciding(CLOCK)
    tester.testInPandas(0, to_decide(operation("op", 1 * MS, 50 * MS), operation("other", 1 * MS, 50 * MS)))
    tester.setProcessingTime(52)
    assert len(tester.testInPandas(0, to_decide(match("op", 1 * MS, 49 * MS)))) == 1
    assert rows_of(tester.setProcessingTime(53)) == [("other", "expired", 1 * MS, 50 * MS, 50 * MS)]


def test_a_shard_has_one_timer_and_none_when_nothing_is_pending():
    tester = deciding(EVENT)
    tester.testInPandas(0, to_decide(operation("late", 1 * MS, 50 * MS)))
    tester.testInPandas(0, to_decide(operation("early", 1 * MS, 20 * MS)))
    assert timers(tester) == [20]
    tester.setWatermark(30)
    assert timers(tester) == [50]
    tester.setWatermark(60)
    assert timers(tester) == []


def test_the_counts_of_a_shard_outlive_its_operations():
    tester = deciding(EVENT)
    first, second = operation("first", 1 * MS, 20 * MS), operation("second", 1 * MS, 20 * MS, needed=0)
    tester.testInPandas(0, to_decide(first, first, second))
    tester.setWatermark(30)
    tester.testInPandas(0, to_decide(operation("third", 2 * MS, 90 * MS)))
    state = dict(zip(columns(OPERATION_STATE), tester.peekValueState("shard", 0), strict=True))
    assert {name: state[name] for name in ("submitted", "repeated", "late", "completed", "expired")} == {
        "submitted": 3,
        "repeated": 1,
        "late": 1,
        "completed": 1,
        "expired": 1,
    }
    tester.setWatermark(90)
    assert tester.peekValueState("shard", 0)[:3] == (None, None, 0)

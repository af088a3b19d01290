"""Spark's own checkpoints: whole ones are found whole, the remedies help, and what only Spark can find is one line."""

import random

import pytest

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.damage import check_distributed_files, check_stream_files
from purgatory_async.pipeline.jobs import distributed, stream
from tests.pipeline.jobs.test_distributed import random_inputs
from tests.pipeline.journals import live
from tests.pipeline.parquet_inputs import Inputs, read_outcomes
from tests.pipeline.test_clusters import node
from tests.pipeline.test_window_batches import SECOND, at_once, streamed

pytestmark = pytest.mark.slow


def refusal(check, *places):
    with pytest.raises(Refused) as refused:
        check(*places)
    return str(refused.value)


def test_a_stream_goes_on_after_each_remedy(spark, tmp_path):
    places = {name: tmp_path / name for name in ("journal", "out", "checkpoint")}
    plan = stream.Plan(**places, window_ns=SECOND, files_per_batch=1, available_now=True)
    plan.journal.mkdir()
    records = node("n1", random.Random(1)).records
    for number in (1, 2):
        live(plan.journal, records[(number - 1) * 200 : number * 200], number)
    assert stream.run(plan, spark)["batches"] == 2
    check_stream_files(plan.checkpoint)
    query = plan.checkpoint / "query"
    (query / "commits" / "1").write_bytes(b"")
    assert "its batch is repeated" in refusal(check_stream_files, plan.checkpoint)
    (query / "commits" / "1").unlink()
    assert stream.run(plan, spark) == {"batches": 0, "rows": 0}  # it had its results
    (query / "commits" / "1").unlink()
    (plan.checkpoint / "state" / "000000001").rename(tmp_path / "lost")
    (query / "offsets" / "1").write_bytes(b"v1\n{")
    assert "its batch has no results yet" in refusal(check_stream_files, plan.checkpoint)
    (query / "offsets" / "1").unlink()
    assert stream.run(plan, spark)["batches"] == 1
    check_stream_files(plan.checkpoint)
    assert streamed(spark, plan.out) == at_once(spark, plan.journal)


@pytest.fixture
def drained(spark, tmp_path):
    """A distributed purgatory that has read all, and its outcomes."""
    inputs = Inputs(tmp_path)
    operations, signals = random_inputs(1, 60)
    for start in (0, 30):
        inputs.submit(*operations[start : start + 30])
        inputs.signal(*signals[start : start + 30])
    places = {name: tmp_path / name for name in ("operations", "signals", "out", "checkpoint")}
    plan = distributed.Plan(**places, time="event", shards=1, files_per_batch=1, available_now=True)
    found, _ = distributed.run(plan, spark)
    check_distributed_files(plan.checkpoint, plan.out)
    return plan, found, read_outcomes(plan.out)


def test_a_purgatory_goes_on_after_each_remedy(spark, drained):
    plan, found, outcomes = drained
    logs = plan.checkpoint, plan.checkpoint / "offsets", plan.checkpoint / "commits"
    newest = str(max(int(path.name) for path in logs[1].iterdir() if path.name.isdecimal()))
    (logs[2] / newest).write_bytes(b"")
    assert "its batch is repeated" in refusal(check_distributed_files, plan.checkpoint, plan.out)
    (logs[2] / newest).unlink()
    assert distributed.run(plan, spark)[0] == found
    newest = str(max(int(path.name) for path in logs[1].iterdir() if path.name.isdecimal()))
    (logs[2] / newest).unlink()
    (plan.out / "outcomes" / "_spark_metadata" / newest).unlink()
    (logs[1] / newest).write_bytes(b"v1\n{")
    assert "its batch has no results yet" in refusal(check_distributed_files, plan.checkpoint, plan.out)
    (logs[1] / newest).unlink()
    assert distributed.run(plan, spark)[0] == found
    check_distributed_files(plan.checkpoint, plan.out)
    assert read_outcomes(plan.out) == outcomes


def test_what_only_spark_can_find_is_one_line(spark, drained):
    plan, _, _ = drained
    for path in (plan.checkpoint / "state" / "0" / "0").glob("*.changelog"):
        content = bytearray(path.read_bytes())
        content[20:30] = bytes(10)
        path.write_bytes(content)
        path.with_name(f".{path.name}.crc").unlink()
    check_distributed_files(plan.checkpoint, plan.out)
    with pytest.raises(
        Refused, match=r"^--checkpoint .* cannot be continued: [^\n]*; if a file is damaged, begin anew"
    ):
        distributed.run(plan, spark)

"""A stream's windows: the same as of the whole journal at once, whatever was read together and done again."""

import shutil

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from purgatory_async.pipeline.jobs.stream import Plan, run
from purgatory_async.pipeline.operations.tables import dealt, operations
from purgatory_async.pipeline.output import spark_path
from purgatory_async.pipeline.source.tables import PurgatoryJournal, read_journal
from purgatory_async.pipeline.windows import WindowBatches, add_up, steps, windows
from tests.pipeline.journals import MS, Node, append, lines, live, rotated

SECOND = 1_000_000_000


def comparable(table):
    """Its rows without the bytes of the sketches, which may differ although their content is equal."""
    n = sf.kll_sketch_get_n_bigint("latency_sketch").alias("n")
    most = sf.kll_sketch_get_quantile_bigint("latency_sketch", sf.lit(1.0)).alias("most")
    return sorted(tuple(row) for row in table.select("*", n, most).drop("latency_sketch").collect())


def streamed(spark, out):
    return comparable(add_up(spark.read.parquet(spark_path(out / "windows")), SECOND))


def at_once(spark, journal):
    return comparable(windows(steps(operations(dealt(read_journal(spark, journal).records))), SECOND))


def busy_node(name, count):
    """Operations that end some segments later, or never; one that ends twice, and ends of what never began."""
    node = Node(node=name)
    for number in range(count):
        node.submit(f"op-{number}", number * 50 * MS, keys=[f"k{number % 3}", "all"])
        if number % 10 > 2:
            node.outcome(
                f"op-{number - 3}", number * 50 * MS, keys=[f"k{number % 3}", "all"], latency=150 * MS
            )
        if number % 20 == 7:
            node.outcome(f"op-{number - 4}", number * 50 * MS, outcome="expired")
            node.outcome(f"nobody-{number}", number * 50 * MS)
    return node


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    place = tmp_path_factory.mktemp("a b%20[c]")
    (place / "journal").mkdir()
    return Plan(
        journal=place / "journal",
        out=place / "out",
        checkpoint=place / "checkpoint",
        window_ns=SECOND,
        available_now=True,
    )


# B1: one file at a time, with a torn line, a rotation and late news in between.
def test_a_drained_stream_has_the_windows_of_the_whole_journal(spark, plan):
    one, two = busy_node("n1", 80), busy_node("n2", 30)
    late = one.submit("late", -3600 * SECOND)
    half = len(one.records) // 2
    torn = lines(one.records[half:])
    path = live(plan.journal, one.records[:half], 1)
    append(path, b"not JSON\n" + torn[:500])
    rotated(plan.journal, two.records, 1, node="n2")
    first = run(
        Plan(**{name: getattr(plan, name) for name in Plan.__slots__} | {"files_per_batch": 1}), spark
    )
    assert first["batches"] == 2
    assert streamed(spark, plan.out) == at_once(spark, plan.journal)
    for table in (
        "windows",
        "quarantine",
    ):  # or readers that compare schemas would refuse the file without rows
        (_,) = {pq.read_schema(file).remove_metadata() for file in (plan.out / table).glob("*.parquet")}
    path.unlink()
    rotated(plan.journal, one.records, 1)  # more than was read of it
    second = run(plan, spark)
    assert second["batches"] == 1
    assert streamed(spark, plan.out) == at_once(spark, plan.journal)
    assert any(row[0] < late.wall_ns + SECOND for row in streamed(spark, plan.out))
    assert run(plan, spark) == {"batches": 0, "rows": 0}
    assert spark.read.parquet(spark_path(plan.out / "windows")).count() == first["rows"] + second["rows"]
    (damage,) = spark.read.parquet(spark_path(plan.out / "quarantine")).collect()
    assert (damage.file, damage.offset) == (path.name, len(lines(one.records[:half])))


# Killed after the rows were published and before the batch was done, it is done again; killed after, it is passed over.
def test_a_batch_that_is_done_again_changes_nothing(spark, tmp_path):
    node = busy_node("n1", 40)
    half = len(node.records) // 2
    batches = WindowBatches(tmp_path, tmp_path, SECOND)
    batches.lay_out()
    for number, records in enumerate((node.records[:half], node.records[half:])):
        journal = tmp_path / f"part-{number}"
        journal.mkdir()
        live(journal, records)
        spark.dataSource.register(PurgatoryJournal)
        rows = spark.read.format("purgatory_journal").option("table", "all").load(str(journal))
        batches(rows, number)
        once = streamed(spark, tmp_path)
        shutil.rmtree(tmp_path / "state" / f"{number:09d}")
        (tmp_path / f".windows-{number:09d}").mkdir()
        batches(rows, number)
        batches(rows, number)
        assert streamed(spark, tmp_path) == once
        assert not list(tmp_path.glob(".*"))
    (tmp_path / "whole").mkdir()
    live(tmp_path / "whole", node.records)
    assert once == at_once(spark, tmp_path / "whole")
    assert (
        batches.rows_since(-1)
        == batches.rows_since(0)
        + spark.read.parquet(spark_path(tmp_path / "windows" / "batch-000000000.parquet")).count()
    )


def test_a_journal_without_segments_makes_tables_without_rows(spark, tmp_path):
    (tmp_path / "journal").mkdir()
    plan = Plan(
        journal=tmp_path / "journal",
        out=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        window_ns=SECOND,
        available_now=True,
    )
    assert run(plan, spark)["rows"] == 0
    assert streamed(spark, plan.out) == at_once(spark, plan.journal) == []
    assert spark.read.parquet(spark_path(plan.out / "quarantine")).columns == ["file", "offset", "reason"]
